-- set(channel, message, over, first, id, time, body ...): over has a byte for each task, 1 if it is to be set only
-- where there is none, and 2 if a waiting or running one keeps its time. Empty means that all are 0. first is
-- the earliest time but for relative ones, or empty.
local meta = call('HMGET', m, 'n', 'z', 'logs')
local refused = refusal(meta)
if refused then return refused end
local now, channel, message, over = clock(), ARGV[1], ARGV[2], ARGV[3]
local count, first = (#ARGV - 4) / 3, tonumber(ARGV[4])
local was, kept, skip, times = {}, {}, {}, {}
local version = numbers(meta[1], 1) + 1 -- of all: no task is here twice
local head = pack('>I7', version)
local scores, fields, size, big = {}, {}, 0, 0

-- replace has the existing tasks of ids leave their sets, but for those to be kept.
local function replace(ids, bodies)
  local state, score = states(ids)
  local clear, later, leave = {}, {}, {{}, {}, {}, {}, {}}
  for i = 1, count do
    local number = state[i]
    was[i] = (not bodies or bodies[i]) and number or 0 -- without a body there is no task
    if was[i] > 0 and byte(over, i) == 1 and (number == 1 or number == 2 or number == 4) then
      local record = call('HGET', a, ids[i])
      kept[#kept + 1] = {i - 1, sub(bodies[i], 1, 7), record and text(due(record)) or score[i]}
      skip[i] = true
    elseif number then
      if (was[i] == 1 or was[i] == 2) and byte(over, i) == 2 then
        local record = call('HGET', a, ids[i])
        local at = record and text(due(record)) or score[i]
        times[i] = number == 1 and score[i] or at
        if times[i] ~= at then later[#later + 1], later[#later + 2] = ids[i], waits(at, '') end
        if number == 2 then first = math.min(first or tonumber(at), tonumber(at)) end
        kept[#kept + 1] = {i - 1, head, at}
      end
      clear[#clear + 1] = ids[i]
      if number > 1 then leave[number][#leave[number] + 1] = ids[i] end
    end
  end
  if #clear > 0 then call('HDEL', a, unpack(clear)) end
  if #later > 0 then call('HSET', a, unpack(later)) end
  unmark(clear)
  for number = 2, 5 do
    if #leave[number] > 0 then call('ZREM', sets[number], unpack(leave[number])) end
  end
  tellEnded(channel, message, leave[2])
end

local function all()
  local ids = {}
  for i = 1, count do ids[i] = ARGV[3 * i + 2] end
  return ids
end

if over ~= '' then
  local ids = all()
  replace(ids, call('HMGET', b, unpack(ids)))
end
local from = 5
for i = 1, count do
  if not skip[i] then
    local id, body, at = ARGV[from], ARGV[from + 2]
    if times[i] then
      at = times[i]
    else
      at, first = timed(ARGV[from + 1], now, first)
      if byte(over, i) == 2 then first = math.min(first or tonumber(at), tonumber(at)) end
    end
    if #body > big then big = #body end
    scores[size + 1], fields[size + 1] = at, id
    size = size + 2
    scores[size], fields[size] = id, head .. body
  end
  from = from + 3
end
if size > 0 then
  -- Most tasks are new; then nothing else looks for them.
  if call('HSET', b, unpack(fields)) * 2 < size and over == '' then replace(all()) end
  if first then earlier(channel, message, first) end
  call('ZADD', s, unpack(scores))
end
if meta[3] then -- also that of a task deleted by a process that knows no logs
  local ids = {}
  for i = 1, size, 2 do ids[#ids + 1] = fields[i] end
  unlog(meta[3], ids)
end
if big > 4096 then call('HSET', m, 'big', 1) end
return {now, version, table.concat(was), kept}
