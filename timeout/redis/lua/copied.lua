-- copied(): the topics that a copy has a record of.
return redis.call('HKEYS', KEYS[1])
