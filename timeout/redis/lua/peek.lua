-- peek(limit, room): of a sealed slot the first tasks. Bodies and logs have no more bytes than there is room, but for the first
-- one.
local meta = call('HMGET', m, 'n', 'z', 'logs')
if not meta[1] then return 'gone' end
if not meta[2] then return 'open' end
local limit, room, tasks = tonumber(ARGV[1]), tonumber(ARGV[2]), {}
for state = 1, 5 do
  local found = call('ZRANGE', sets[state], 0, limit - #tasks - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    local id, score = found[i], found[i + 1]
    local body = call('HGET', b, id) or ''
    local log = meta[3] and call('HGET', m, '\2' .. id) or ''
    room = room - #body - #log
    if room < 0 and #tasks > 0 then return {tasks} end
    tasks[#tasks + 1] = {id, state, score, body, call('HGET', a, id) or moved(id, body, score) or '', log}
  end
  if #tasks == limit then break end
end
return {tasks}
