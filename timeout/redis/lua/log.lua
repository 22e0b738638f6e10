-- log(id): the log of a task with a body, perhaps empty.
local meta = call('HMGET', m, 'n', 'z', '\2' .. ARGV[1])
local refused = refusal(meta)
if refused then return refused end
return {clock(), meta[3] and call('HEXISTS', b, ARGV[1]) == 1 and meta[3] or ''}
