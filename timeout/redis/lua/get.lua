-- get(id ...)
local refused = refusal(call('HMGET', m, 'n', 'z'))
if refused then return refused end
local state, score = states(ARGV)
local bodies, records = call('HMGET', b, unpack(ARGV)), call('HMGET', a, unpack(ARGV))
for i = 1, #ARGV do
  if state[i] == 1 then records[i] = records[i] or moved(ARGV[i], bodies[i], score[i]) end
  state[i], score[i] = bodies[i] and state[i] or 0, score[i] or '' -- without a body there is no task
end
return {state, score, bodies, records}
