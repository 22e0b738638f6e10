-- set(channel, message, absent, id, time, body ...): absent has a byte 1 for each task that
-- is to be set only where there is none, or is empty.
local meta = call('HMGET', m, 'n', 'z')
local refused = refusal(meta)
if refused then return refused end
local now, channel, message, absent = clock(), ARGV[1], ARGV[2], ARGV[3]
local count = (#ARGV - 3) / 3
local ids = {}
for i = 1, count do ids[i] = ARGV[3 * i + 1] end
local bodies = call('HMGET', b, unpack(ids))
local state, old, at = {}, {}, {}
for i = 1, count do
  if bodies[i] then
    old[#old + 1], at[#at + 1] = ids[i], i
  end
end
local was, kept, skip = {}, {}, {}
if #old > 0 then
  local found, scores = states(old)
  local clear, leave = {}, {{}, {}, {}, {}, {}}
  for j = 1, #old do
    local i, number = at[j], found[j]
    state[i] = number
    if byte(absent, i) == 1 and (number == 1 or number == 2 or number == 4) then
      local record = call('HGET', a, ids[i])
      kept[#kept + 1] = {i - 1, sub(bodies[i], 1, 7), record and text(due(record)) or scores[j]}
      skip[i] = true
    else
      clear[#clear + 1] = ids[i]
      if number > 1 then leave[number][#leave[number] + 1] = ids[i] end
    end
  end
  if #clear > 0 then call('HDEL', a, unpack(clear)) end
  for number = 2, 5 do
    if #leave[number] > 0 then call('ZREM', sets[number], unpack(leave[number])) end
  end
  for i = 1, count do was[i] = state[i] or 0 end
end
local version = call('HINCRBY', m, 'n', count) - count
local scores, fields, first, size, big = {}, {}, nil, 0, 0
for i = 1, count do
  if not skip[i] then
    local due, body = asked(ARGV[3 * i + 2], now), ARGV[3 * i + 3]
    if not first or due < first then first = due end
    if #body > big then big = #body end
    scores[size + 1], scores[size + 2] = due, ids[i]
    fields[size + 1], fields[size + 2] = ids[i], pack('>I7', version + i) .. body
    size = size + 2
  end
end
earlier(channel, message, first)
if size > 0 then
  call('ZADD', s, unpack(scores))
  call('HSET', b, unpack(fields))
end
if big > 4096 then call('HSET', m, 'big', 1) end
return {now, version, table.concat(was), kept}
