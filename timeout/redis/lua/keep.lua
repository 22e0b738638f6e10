-- keep(rev, attempts, retain, paused, limit): takes over what a topic says, where that is
-- newer than what the slot knows, and deletes what was kept for its time.
local meta = call('HMGET', m, 'n', 'z', 'rev', 'retain')
local refused = refusal(meta)
if refused then return refused end
if tonumber(ARGV[1]) > tonumber(meta[3] or 0) then
  call('HSET', m, 'rev', ARGV[1], 'attempts', ARGV[2], 'retain', ARGV[3], 'paused', ARGV[4])
  meta[4] = ARGV[3]
end
local limit = tonumber(ARGV[5])
if limit == 0 then return {0} end
local before, most = clock() - tonumber(meta[4]), 0
for _, set in ipairs({f, r}) do
  local ids = call('ZRANGE', set, '-inf', before, 'BYSCORE', 'LIMIT', '0', limit)
  if #ids > 0 then
    call('ZREM', set, unpack(ids))
    call('HDEL', b, unpack(ids))
    call('HDEL', a, unpack(ids))
  end
  most = math.max(most, #ids)
end
return {most == limit and 1 or 0}
