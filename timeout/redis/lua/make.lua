-- make(rev, attempts, retain, paused, number, from): a missing partition knows what its topic says. It begins to
-- number with the higher one of the clock's microseconds and a number given. It waits for the tasks of the
-- generation from, if that is not empty. It never changes an existing partition.
if call('HEXISTS', m, 'n') == 1 then return {0} end
numbers(ARGV[5], 0)
call('HSET', m, 'rev', ARGV[1], 'attempts', ARGV[2], 'retain', ARGV[3], 'paused', ARGV[4])
if ARGV[6] ~= '' then call('HSET', m, 'from', ARGV[6]) end
return {1}
