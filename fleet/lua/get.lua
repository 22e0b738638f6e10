-- get(id ...): answers with the time, and the values, records and ends of lease of sessions.
local values, members = call('HMGET', e, unpack(ARGV)), {}
for i, id in ipairs(ARGV) do members[i] = member(id, values[i] or '') end
return {math.floor(clock() / 1000), values, call('HMGET', o, unpack(ARGV)), call('ZMSCORE', l, unpack(members))}
