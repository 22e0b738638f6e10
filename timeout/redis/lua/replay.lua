-- replay(channel, message, id ...): only what is dead.
local meta = call('HMGET', m, 'n', 'z')
local refused = refusal(meta)
if refused then return refused end
local now, ids = clock(), {}
for i = 3, #ARGV do ids[i - 2] = ARGV[i] end
local state, score = states(ids)
local bodies, records = call('HMGET', b, unpack(ids)), call('HMGET', a, unpack(ids))
local number = pack('>I7', numbers(meta[1], 1) + 1) -- of all: no task is here twice
local scores, back, fields, update, answers = {}, {}, {}, {}, {}
for i = 1, #ids do
  if not bodies[i] then
    answers[i] = {0} -- without a body there is no task
  elseif state[i] == 4 then
    scores[#scores + 1], scores[#scores + 2] = now, ids[i]
    back[#back + 1] = ids[i]
    fields[#fields + 1], fields[#fields + 2] = ids[i], number .. sub(bodies[i], 8)
    update[#update + 1], update[#update + 2] = ids[i], waits(now, history(records[i], bodies[i], 0))
    answers[i] = {4, number, text(now)}
  elseif state[i] then
    answers[i] = {state[i], sub(bodies[i], 1, 7), records[i] and text(due(records[i])) or score[i]}
  else
    answers[i] = {0}
  end
end
if #back > 0 then
  earlier(ARGV[1], ARGV[2], now)
  call('ZREM', d, unpack(back))
  call('HSET', a, unpack(update))
  call('ZADD', s, unpack(scores))
  call('HSET', b, unpack(fields))
end
return {now, answers}
