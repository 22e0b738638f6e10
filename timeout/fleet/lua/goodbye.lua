-- goodbye(incarnation): the node is gone, and has no sessions.
return {call('ZREM', g, ARGV[1]), call('HDEL', t, ARGV[1])}
