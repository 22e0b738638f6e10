-- insert(from, id, state, score, body, record, log ...): takes over tasks of a sealed slot, each
-- of them once, and none that has lost its body. It answers "settled" if all were taken over before.
local meta = call('HMGET', m, 'n', 'z', 'from')
local refused = refusal(meta)
if refused then return refused end
if meta[3] ~= ARGV[1] then return 'settled' end
for i = 2, #ARGV, 6 do
  local id = ARGV[i]
  if ARGV[i + 3] ~= '' and call('SADD', t, id) == 1 then
    call('ZADD', sets[tonumber(ARGV[i + 1])], ARGV[i + 2], id)
    call('HSET', b, id, ARGV[i + 3])
    if #ARGV[i + 3] > 4096 then call('HSET', m, 'big', 1) end
    if ARGV[i + 4] ~= '' then call('HSET', a, id, ARGV[i + 4]) end
    if ARGV[i + 5] ~= '' then call('HSET', m, 'logs', 1, '\2' .. id, ARGV[i + 5]) end
  end
end
return {1}
