-- peek(limit, room, id ...): of a sealed slot the tasks of those ids, or else the first ones, and
-- how many there are. Bodies have no more bytes than there is room, but for the first one; the
-- last number is how many ids it has come to.
local meta = call('HMGET', m, 'n', 'z')
if not meta[1] then return 'gone' end
if not meta[2] then return 'open' end
local all, ids = call('HLEN', b), {}
if all == 0 then return {0, {}, 0} end
if #ARGV > 2 then
  for i = 3, #ARGV do ids[i - 2] = ARGV[i] end
else
  local limit = tonumber(ARGV[1])
  for number = 1, 5 do
    if #ids == limit then break end
    for _, id in ipairs(call('ZRANGE', sets[number], 0, limit - #ids - 1)) do ids[#ids + 1] = id end
  end
end
local state, score = states(ids)
local tasks, room, seen = {}, tonumber(ARGV[2]), 0
for i = 1, #ids do
  if state[i] then
    room = room - call('HSTRLEN', b, ids[i])
    if room < 0 and #tasks > 0 then break end
    local body = call('HGET', b, ids[i]) or ''
    tasks[#tasks + 1] = {ids[i], state[i], score[i], body, call('HGET', a, ids[i]) or moved(ids[i], body, score[i]) or ''}
  end
  seen = i
end
return {all, tasks, seen}
