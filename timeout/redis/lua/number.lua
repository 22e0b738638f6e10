-- number(floor): a number above the floor and above all numbers before it. It begins with the clock,
-- so it is above those before a loss of the data, too.
local time = redis.call('TIME')
local now, last = time[1] * 1000 + math.floor(time[2] / 1000), tonumber(redis.call('GET', KEYS[1]) or 0)
local number = string.format('%.0f', math.max(now, last + 1, ARGV[1] + 1))
redis.call('SET', KEYS[1], number)
return {number}
