-- settle(from): nothing comes from the generation from any more.
if call('HGET', m, 'from') == ARGV[1] then
  call('HDEL', m, 'from')
  call('UNLINK', t)
end
return {1}
