-- topic(name, before, after): changes what is kept of a topic, if it still is what it was
-- before. Empty means no such topic.
local topics = KEYS[1]
if (redis.call('HGET', topics, ARGV[1]) or '') ~= ARGV[2] then return {0} end
if ARGV[3] == '' then
  redis.call('HDEL', topics, ARGV[1])
else
  redis.call('HSET', topics, ARGV[1], ARGV[3])
end
return {1}
