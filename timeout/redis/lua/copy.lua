-- copy(name, record, ttl, wrong): a copy takes a record with a higher seq than its own. But the record of
-- a topic made anew does not take the place of a live one. An empty record only asks. A ttl is for the
-- record of a dropped topic. A record in place of a wrong one is taken in any case. It returns the record of the copy, or an empty one.
local live, dropped = KEYS[1], KEYS[2]
local kept = redis.call('GET', dropped) or redis.call('HGET', live, ARGV[1]) or ''
if ARGV[2] == '' then return {kept} end
if kept ~= '' and kept ~= ARGV[4] then
  local old, new = cjson.decode(kept), cjson.decode(ARGV[2])
  if (new.seq or 0) <= (old.seq or 0) then return {kept} end
  if old.phase ~= 'dropped' and new.phase ~= 'dropped' and old.born ~= new.born then return {kept} end
end
if ARGV[3] ~= '' then
  redis.call('HDEL', live, ARGV[1])
  redis.call('SET', dropped, ARGV[2], 'PX', ARGV[3])
else
  redis.call('DEL', dropped)
  redis.call('HSET', live, ARGV[1], ARGV[2])
end
return {ARGV[2]}
