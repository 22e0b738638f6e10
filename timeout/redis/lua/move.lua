-- move(channel, message, id, time ...): only what is pending.
local meta = call('HMGET', m, 'n', 'z')
local refused = refusal(meta)
if refused then return refused end
local now, ids = clock(), {}
for i = 1, (#ARGV - 2) / 2 do ids[i] = ARGV[2 * i + 1] end
local state, score = states(ids)
local number = pack('>I7', numbers(meta[1], 1) + 1) -- of all: no task is here twice
local bodies, records = call('HMGET', b, unpack(ids)), call('HMGET', a, unpack(ids))
local scores, fields, update, answers, first = {}, {}, {}, {}, nil
for i = 1, #ids do
  if state[i] == 1 then
    local at = asked(ARGV[2 * i + 2], now)
    if not first or at < first then first = at end
    scores[#scores + 1], scores[#scores + 2] = at, ids[i]
    fields[#fields + 1], fields[#fields + 2] = ids[i], number .. sub(bodies[i], 8)
    if records[i] then
      update[#update + 1], update[#update + 2] = ids[i], sub(records[i], 1, 11) .. pack('>I6', at) .. sub(records[i], 18)
    end
    answers[i] = {1, number, text(at)}
  elseif state[i] then
    answers[i] = {state[i], sub(bodies[i], 1, 7), records[i] and text(due(records[i])) or score[i]}
  else
    answers[i] = {0}
  end
end
earlier(ARGV[1], ARGV[2], first)
if #scores > 0 then
  call('ZADD', s, unpack(scores))
  call('HSET', b, unpack(fields))
end
if #update > 0 then call('HSET', a, unpack(update)) end
return {now, answers}
