-- peek(limit, id ...): of a sealed slot the tasks of those ids, or else the first ones, and
-- how many there are. The size of the bodies is bounded.
local meta = call('HMGET', m, 'n', 'z')
if not meta[1] then return 'gone' end
if not meta[2] then return 'open' end
local all, ids = call('HLEN', b), {}
if all == 0 then return {0, {}} end
if #ARGV > 1 then
  for i = 2, #ARGV do ids[i - 1] = ARGV[i] end
else
  local limit = tonumber(ARGV[1])
  for number = 1, 5 do
    if #ids == limit then break end
    for _, id in ipairs(call('ZRANGE', sets[number], 0, limit - #ids - 1)) do ids[#ids + 1] = id end
  end
end
local state, score = states(ids)
local tasks, room = {}, 4194304
for i = 1, #ids do
  if state[i] then
    local body = call('HGET', b, ids[i])
    room = room - #body
    if room < 0 and #tasks > 0 and #ARGV == 1 then break end
    tasks[#tasks + 1] = {ids[i], state[i], score[i], body, call('HGET', a, ids[i]) or ''}
  end
end
return {all, tasks}
