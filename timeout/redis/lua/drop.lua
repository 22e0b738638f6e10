-- drop(ttl): all of the slot goes, but for a mark. It tells processes that have not heard of the
-- end, and goes after a time.
call('UNLINK', s, p, f, d, r, b, a, t)
local time = call('TIME')
call('HSETNX', m, 'n', text(time[1] * 1000000 + time[2]))
call('HSET', m, 'z', 1)
call('PEXPIRE', m, ARGV[1])
return {1}
