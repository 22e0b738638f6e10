-- set(channel, message, absent, first, id, time, body ...): absent has a byte 1 for each task
-- that is to be set only where there is none, or is empty. first is the earliest time.
local meta = call('HMGET', m, 'n', 'z')
local refused = refusal(meta)
if refused then return refused end
local now, channel, message, absent = clock(), ARGV[1], ARGV[2], ARGV[3]
local count = (#ARGV - 4) / 3
local was, kept, skip = {}, {}, {}
local version = call('HINCRBY', m, 'n', '1') -- of all: no task is here twice
local head = pack('>I7', version)
local ids, scores, fields, size, big = {}, {}, {}, 0, 0

-- replace has those of ids which are there leave their sets, but for those to be kept.
local function replace(bodies)
  local state, score = states(ids)
  local clear, leave = {}, {{}, {}, {}, {}, {}}
  for i = 1, count do
    local number = state[i]
    was[i] = number or 0
    if number and byte(absent, i) == 1 and (number == 1 or number == 2 or number == 4) then
      local record = call('HGET', a, ids[i])
      kept[#kept + 1] = {i - 1, sub(bodies[i], 1, 7), record and text(due(record)) or score[i]}
      skip[i] = true
    elseif number then
      clear[#clear + 1] = ids[i]
      if number > 1 then leave[number][#leave[number] + 1] = ids[i] end
    end
  end
  if #clear > 0 then call('HDEL', a, unpack(clear)) end
  for number = 2, 5 do
    if #leave[number] > 0 then call('ZREM', sets[number], unpack(leave[number])) end
  end
end

for i = 1, count do ids[i] = ARGV[3 * i + 2] end
if absent ~= '' then
  replace(call('HMGET', b, unpack(ids)))
end
for i = 1, count do
  if not skip[i] then
    local at, body = ARGV[3 * i + 3], ARGV[3 * i + 4]
    if byte(at) == 45 then at = text(asked(at, now)) end
    if #body > big then big = #body end
    scores[size + 1], scores[size + 2] = at, ids[i]
    fields[size + 1], fields[size + 2] = ids[i], head .. body
    size = size + 2
  end
end
if size > 0 then
  -- Most tasks are new; then this is all that looks for them.
  if call('HSET', b, unpack(fields)) * 2 < size and absent == '' then replace() end
  earlier(channel, message, asked(ARGV[4], now))
  call('ZADD', s, unpack(scores))
end
if big > 4096 then call('HSET', m, 'big', 1) end
return {now, version, table.concat(was), kept}
