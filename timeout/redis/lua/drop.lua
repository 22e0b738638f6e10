-- drop(ttl, channel, message): all of the partition goes, but for a tombstone. It tells processes that have not heard of the
-- end, and goes after a time.
local time, number = call('TIME'), call('HGET', m, 'n')
local running = call('EXISTS', p) == 1
call('UNLINK', s, p, f, d, r, b, a, m, t)
call('HSET', m, 'n', number or text(time[1] * 1000000 + time[2]), 'z', 1)
call('PEXPIRE', m, ARGV[1])
if running then tellEnded(ARGV[2], ARGV[3], {''}) end
return {1}
