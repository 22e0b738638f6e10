-- get(id ...)
local refused = refusal(call('HMGET', m, 'n', 'z'))
if refused then return refused end
local state, score = states(ARGV)
for i = 1, #ARGV do
  state[i], score[i] = state[i] or 0, score[i] or ''
end
return {state, score, call('HMGET', b, unpack(ARGV)), call('HMGET', a, unpack(ARGV))}
