-- move(channel, message, first, only, id, time ...): only pending tasks. first is the earliest time but for
-- relative ones, or empty. If only is not empty, it has for each the wanted version, in the last seven of eight
-- bytes; zeros stand for any. The answer has a digit for the state of each task, and the version and time of
-- each unchanged one.
local meta = call('HMGET', m, 'n', 'z')
local refused = refusal(meta)
if refused then return refused end
local now, only, count, ids = clock(), ARGV[4], (#ARGV - 4) / 2, {}
for i = 1, count do ids[i] = ARGV[2 * i + 3] end
local bodies, records = call('HMGET', b, unpack(ids)), call('HMGET', a, unpack(ids))

-- The number of each task's state, and 0 for a missing task. A task with a body and no record waits for its
-- first attempt: the sets are asked about the others only.
local state, some, places = {}, {}, {}
for i = 1, count do
  state[i] = bodies[i] and 1 or 0
  if records[i] and bodies[i] then some[#some + 1], places[#places + 1] = ids[i], i end
end
local found = #some > 0 and states(some)
for j, i in ipairs(places) do state[i] = found[j] or 0 end

-- meant tells whether a task is what the caller has seen.
local function meant(i)
  local seen = sub(only, 8 * i - 6, 8 * i)
  return only == '' or seen == noLease or seen == sub(bodies[i], 1, 7)
end

local version = numbers(meta[1], 1) + 1 -- of all: no task is here twice
local head = pack('>I7', version)
local scores, fields, update, set, kept, size, first = {}, {}, {}, {}, {}, 0, tonumber(ARGV[3])
for i = 1, count do
  if state[i] == 1 and meant(i) then
    local id, body, record, at = ids[i], bodies[i], records[i]
    at, first = timed(ARGV[2 * i + 4], now, first)
    if record then
      update[#update + 1] = id
      update[#update + 1] = sub(record, 1, 11) .. pack('>I6', at) .. sub(record, 18, 22 + byte(record, 22)) .. split(record) .. history(record, body)
    else
      local has, with = mark(body)
      if with then
        body, set[#set + 1], set[#set + 2] = with, '\1' .. id, sub(history(nil, body), 1, 6)
      elseif not has then
        update[#update + 1], update[#update + 2] = id, waits(at, history(nil, body))
      end
    end
    scores[size + 1], fields[size + 1] = at, id
    size = size + 2
    scores[size], fields[size] = id, head .. sub(body, 8)
  elseif state[i] > 0 then
    kept[#kept + 1] = {i - 1, sub(bodies[i], 1, 7), records[i] and text(due(records[i])) or call('ZSCORE', s, ids[i])}
  end
end
if size > 0 then
  earlier(ARGV[1], ARGV[2], first)
  call('ZADD', s, unpack(scores))
  call('HSET', b, unpack(fields))
end
if #update > 0 then call('HSET', a, unpack(update)) end
if #set > 0 then call('HSET', m, 'marks', 1, unpack(set)) end
return {now, version, table.concat(state), kept}
