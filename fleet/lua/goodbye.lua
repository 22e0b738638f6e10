-- goodbye(incarnation): removes a node without sessions.
return {call('ZREM', g, ARGV[1]), call('HDEL', t, ARGV[1])}
