-- keep(rev, retain, paused, limit, retain of the dead, most done, most dead, most removed): takes over
-- what a topic says, if that is newer than what the partition knows. It deletes ended tasks after their time, and the
-- oldest beyond the most, at most limit of each state. It returns whether there may be more to do, and how many
-- dead ones it has deleted.
local meta = call('HMGET', m, 'n', 'z', 'rev', 'retain', 'logs', 'until')
local refused = refusal(meta)
if refused then return refused end
local newer = tonumber(ARGV[1]) - tonumber(meta[3] or 0)
if newer > 0 or newer == 0 and #ARGV[3] > 1 and meta[6] ~= ARGV[1] .. ' ' .. ARGV[3] then
  heed(ARGV[1], ARGV[2], ARGV[3])
  meta[4] = ARGV[2]
end
local limit, more = tonumber(ARGV[4]), 0
local function purge(set, retain, most)
  local old, surplus = call('ZCOUNT', set, '-inf', text(clock() - retain)), call('ZCARD', set) - most
  local count = math.min(limit, math.max(old, surplus))
  if count <= 0 then return 0 end
  local ids = call('ZRANGE', set, '0', count - 1)
  call('ZREM', set, unpack(ids))
  call('HDEL', b, unpack(ids))
  call('HDEL', a, unpack(ids))
  unlog(meta[5], ids)
  if count == limit then more = 1 end
  return count
end
purge(f, meta[4], ARGV[6])
local dead = purge(d, ARGV[5], ARGV[7])
purge(r, meta[4], ARGV[8])
return {more, dead}
