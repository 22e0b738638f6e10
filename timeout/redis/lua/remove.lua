-- remove(id ...): what is pending, running or dead.
local meta = call('HMGET', m, 'n', 'z', 'retain')
local refused = refusal(meta)
if refused then return refused end
local now, state, score = clock(), states(ARGV)
local retain, answers = meta[3] ~= '0', {}
local records = call('HMGET', a, unpack(ARGV))
local leave, gone, ended, update = {{}, {}, {}, {}}, {}, {}, {}
for i = 1, #ARGV do
  local id, number = ARGV[i], state[i]
  if number == 1 or number == 2 or number == 4 then
    leave[number][#leave[number] + 1] = id
    if retain then
      local record = records[i] or noLease .. pack('>I4I6I4I1', 0, score[i], 0, 0)
      ended[#ended + 1], ended[#ended + 2] = now, id
      update[#update + 1], update[#update + 2] = id, noLease .. sub(record, 8)
    else
      gone[#gone + 1] = id
    end
    answers[i] = {number}
  elseif number then
    answers[i] = {number, sub(call('HGET', b, id), 1, 7), records[i] and text(due(records[i])) or score[i]}
  else
    answers[i] = {0}
  end
end
for number = 1, 4 do
  if #leave[number] > 0 then call('ZREM', sets[number], unpack(leave[number])) end
end
if #gone > 0 then
  call('HDEL', b, unpack(gone))
  call('HDEL', a, unpack(gone))
end
if #ended > 0 then
  call('ZADD', r, unpack(ended))
  call('HSET', a, unpack(update))
end
return {now, answers}
