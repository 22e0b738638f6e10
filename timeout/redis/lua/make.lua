-- make(rev, retain, paused, number, from): a missing partition knows what its topic says. It begins to
-- number with the higher one of the clock's microseconds and a number given. It waits for the tasks of the
-- generation from, if that is not empty. Otherwise a sealed partition is opened, unless it was dropped: that one has
-- an end. It returns 1, or 0 if it changes nothing, or 2 if the partition was dropped.
if call('HEXISTS', m, 'n') == 1 then
  if ARGV[5] ~= '' or call('HEXISTS', m, 'z') == 0 then return {0} end
  if call('PTTL', m) >= 0 then return {2} end
  call('HDEL', m, 'z')
else
  numbers(ARGV[4], 0)
end
-- Scripts of an earlier version compare attempts with a limit.
call('HSET', m, 'attempts', 2147483647)
heed(ARGV[1], ARGV[2], ARGV[3])
if ARGV[5] ~= '' then call('HSET', m, 'from', ARGV[5]) end
return {1}
