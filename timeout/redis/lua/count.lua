-- count(): how many there are in each state, how many are due, and since when the first is.
-- It counts in sealed partitions, too.
local now, counts = clock(), {}
for i = 1, 5 do counts[i] = call('ZCARD', sets[i]) end
local first = call('ZRANGE', s, '0', '0', 'WITHSCORES')[2] or ''
return {now, counts, call('ZCOUNT', s, '-inf', now), first}
