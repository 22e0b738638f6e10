-- open(rev, attempts, retain, paused): a sealed partition accepts changes again, and knows what its topic says. One that was
-- dropped has an end, and does not.
if call('HEXISTS', m, 'z') == 1 then
  if call('PTTL', m) >= 0 then return 'dropped' end
  call('HSET', m, 'rev', ARGV[1], 'attempts', ARGV[2], 'retain', ARGV[3], 'paused', ARGV[4])
  call('HDEL', m, 'z')
end
return {1}
