-- copied(): the topics of a copy.
return redis.call('HKEYS', KEYS[1])
