-- make(number, from): a missing slot begins to number with the higher one of the clock's
-- microseconds and a number given. It waits for the tasks of the generation from,
-- if that is not empty. It never changes an existing slot.
if call('HEXISTS', m, 'n') == 1 then return {0} end
local time = call('TIME')
local number = math.max(time[1] * 1000000 + time[2], tonumber(ARGV[1]))
call('HSET', m, 'n', text(number), 'rev', 0, 'attempts', 17, 'retain', 0, 'paused', 0)
if ARGV[2] ~= '' then call('HSET', m, 'from', ARGV[2]) end
return {1}
