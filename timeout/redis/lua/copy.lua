-- copy(name, record, ttl, wrong): a copy takes a record with a higher seq than its own. But the record of
-- a topic made anew does not take the place of a live one. An empty record only asks. The record of a dropped
-- topic ends after the ttl. A record in place of a wrong one is taken in any case. It returns the record of the
-- copy, or an empty one.
local live, dropped = KEYS[1], KEYS[2]
local kept = redis.call('GET', dropped) or redis.call('HGET', live, ARGV[1]) or ''
if ARGV[2] == '' then return {kept} end
local new = cjson.decode(ARGV[2])
if kept ~= '' and kept ~= ARGV[4] then
  local old = cjson.decode(kept)
  if (new.seq or 0) <= (old.seq or 0) then return {kept} end
  if old.phase ~= 'dropped' and new.phase ~= 'dropped' and old.born ~= new.born then return {kept} end
end
if new.phase == 'dropped' then
  redis.call('HDEL', live, ARGV[1])
  redis.call('SET', dropped, ARGV[2], 'PX', ARGV[3])
else
  redis.call('DEL', dropped)
  redis.call('HSET', live, ARGV[1], ARGV[2])
end
return {ARGV[2]}
