-- first(lease): how long it is until the first task of the partition is due, in milliseconds, and when, or
-- nothing if none waits. If a lease ends later than one given now would, the clock may have been stepped
-- back. Then the answer is 0, since lease has to look. It changes nothing. Few keys and no head: it runs
-- often, on partitions with nothing to do.
local call = redis.call
local meta = call('HMGET', m, 'n', 'z', 'paused', 'rev', 'until')
if not meta[1] then return 'gone' end
if meta[2] then return 'sealed' end
if call('EXISTS', s, p) == 0 then return {} end
local first = call('ZRANGE', s, '0', '0', 'WITHSCORES')[2]
local ends = call('ZRANGE', p, '0', '0', 'WITHSCORES')[2]
local at = math.min(tonumber(first or ends), tonumber(ends or first))
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ends and tonumber(call('ZRANGE', p, '0', '0', 'REV', 'WITHSCORES')[2]) > now + ARGV[1] then at = now end
local ends = meta[3] == '1' and meta[5] and tonumber(string.match(meta[5], '^' .. meta[4] .. ' (%d+)$'))
if ends then at = math.max(at, ends) end
return {at - now, string.format('%.0f', at)}
