-- keep(rev, attempts, retain, paused, limit, retain of the dead, most of them): takes over what a
-- topic says, where that is newer than what the slot knows, and deletes what was kept for its time,
-- and the oldest of the dead where there are more than that. It returns whether there may be more
-- to do, and how many dead ones it has deleted.
local meta = call('HMGET', m, 'n', 'z', 'rev', 'retain')
local refused = refusal(meta)
if refused then return refused end
if tonumber(ARGV[1]) > tonumber(meta[3] or 0) then
  call('HSET', m, 'rev', ARGV[1], 'attempts', ARGV[2], 'retain', ARGV[3], 'paused', ARGV[4])
  meta[4] = ARGV[3]
end
local limit = tonumber(ARGV[5])
if limit == 0 then return {0, 0} end
local most = 0
local function delete(set, ids)
  if #ids > 0 then
    call('ZREM', set, unpack(ids))
    call('HDEL', b, unpack(ids))
    call('HDEL', a, unpack(ids))
  end
  most = math.max(most, #ids)
  return #ids
end
local function old(set, retain)
  return call('ZRANGE', set, '-inf', text(clock() - retain), 'BYSCORE', 'LIMIT', '0', limit)
end
delete(f, old(f, meta[4]))
delete(r, old(r, meta[4]))
local dead = delete(d, old(d, ARGV[6]))
local surplus = math.min(call('ZCARD', d) - ARGV[7], limit - dead)
if tonumber(ARGV[7]) >= 0 and surplus > 0 then
  dead = dead + delete(d, call('ZRANGE', d, '0', surplus - 1))
  if dead == limit then most = limit end
end
return {most == limit and 1 or 0, dead}
