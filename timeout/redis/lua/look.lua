-- look(rev, retain of the dead, most of them): whether keep has anything to do in a slot: 1 or 0. It
-- changes nothing. Few keys and no head: it runs often, on slots with nothing to do.
local call = redis.call
local meta = call('HMGET', m, 'n', 'z', 'rev', 'retain')
if not meta[1] then return 'gone' end
if meta[2] then return 'sealed' end
if tonumber(ARGV[1]) > tonumber(meta[3] or 0) then return {1} end
if call('EXISTS', f, d, r) == 0 then return {0} end
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function old(set, retain)
  local till = string.format('%.0f', now - retain)
  return #call('ZRANGE', set, '-inf', till, 'BYSCORE', 'LIMIT', '0', '1') > 0
end
if old(f, meta[4]) or old(r, meta[4]) or old(d, ARGV[2]) or call('ZCARD', d) > tonumber(ARGV[3]) then return {1} end
return {0}
