-- remove(channel, message, only, id ...): what is pending, running or dead. If only is not empty, it has
-- for each the wanted state and version, in one byte and seven; zeros stand for any.
local meta = call('HMGET', m, 'n', 'z', 'retain', 'marks', 'logs')
local refused = refusal(meta)
if refused then return refused end
local only, ids, now = ARGV[3], {}, clock()
for i = 4, #ARGV do ids[i - 3] = ARGV[i] end
local state, score = states(ids)
local retain, answers = meta[3] ~= '0', {}
local records, marks = call('HMGET', a, unpack(ids)), meta[4]
local function version(id) return sub(call('HGET', b, id) or noLease, 1, 7) end

-- meant tells whether it is what the caller has seen.
local function meant(i)
  if only == '' then return true end
  local wanted, seen = byte(only, 8 * i - 7), sub(only, 8 * i - 6, 8 * i)
  return (wanted == 0 or wanted == state[i]) and (seen == noLease or seen == version(ids[i]))
end

local leave, gone, ended, update = {{}, {}, {}, {}}, {}, {}, {}
for i = 1, #ids do
  local id, number = ids[i], state[i]
  if (number == 1 or number == 2 or number == 4) and meant(i) then
    leave[number][#leave[number] + 1] = id
    if retain then
      local record = records[i] or marks and moved(id, call('HGET', b, id), score[i]) or waits(score[i], '')
      ended[#ended + 1], ended[#ended + 2] = now, id
      update[#update + 1], update[#update + 2] = id, noLease .. sub(record, 8)
    else
      gone[#gone + 1] = id
    end
    answers[i] = {number}
  elseif number then
    answers[i] = {number, version(id), records[i] and text(due(records[i])) or score[i]}
  else
    answers[i] = {0}
  end
end
for number = 1, 4 do
  if #leave[number] > 0 then call('ZREM', sets[number], unpack(leave[number])) end
end
unmark(leave[1])
if #gone > 0 then
  call('HDEL', b, unpack(gone))
  call('HDEL', a, unpack(gone))
  unlog(meta[5], gone)
end
if #ended > 0 then
  call('ZADD', r, unpack(ended))
  call('HSET', a, unpack(update))
end
tellEnded(ARGV[1], ARGV[2], leave[2])
return {now, answers}
