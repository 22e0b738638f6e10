-- look(rev, retain of the dead): whether keep has anything to do in a partition, 1 or 0, and how many dead tasks
-- there are. It changes nothing. Few keys and no head: it runs often, on partitions with nothing to do.
local call = redis.call
local meta = call('HMGET', m, 'n', 'z', 'rev', 'retain', 'until')
if not meta[1] then return 'gone' end
if meta[2] then return 'sealed' end
local dead = call('ZCARD', d)
local newer = tonumber(ARGV[1]) - tonumber(meta[3] or 0)
if newer > 0 or newer == 0 and #ARGV[3] > 1 and meta[5] ~= ARGV[1] .. ' ' .. ARGV[3] then return {1, dead} end
if dead == 0 and call('EXISTS', f, r) == 0 then return {0, 0} end
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function old(set, retain)
  local till = string.format('%.0f', now - retain)
  return #call('ZRANGE', set, '-inf', till, 'BYSCORE', 'LIMIT', '0', '1') > 0
end
return {(old(f, meta[4]) or old(r, meta[4]) or old(d, ARGV[2])) and 1 or 0, dead}
