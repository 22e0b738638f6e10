-- get(id ...)
return {math.floor(clock() / 1000), call('HMGET', e, unpack(ARGV)), call('HMGET', o, unpack(ARGV)), call('ZMSCORE', l, unpack(ARGV))}
