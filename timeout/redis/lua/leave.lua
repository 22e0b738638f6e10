-- leave(id ...): tasks go from a sealed slot after another one has taken them over.
local meta = call('HMGET', m, 'n', 'z', 'logs')
if not meta[2] then return 'open' end
for _, set in ipairs(sets) do call('ZREM', set, unpack(ARGV)) end
call('HDEL', b, unpack(ARGV))
call('HDEL', a, unpack(ARGV))
unmark(ARGV)
unlog(meta[3], ARGV)
return {1}
