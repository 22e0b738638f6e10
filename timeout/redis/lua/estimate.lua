-- estimate(samples): about how many bytes the done, dead and removed tasks have, and how many there are of
-- each. Some of them tell the size of all. It changes nothing.
local call = redis.call
local answer, logs = {0}, call('HEXISTS', m, 'logs') == 1
for i, set in ipairs({f, d, r}) do
  local count, ids, size = call('ZCARD', set), call('ZRANDMEMBER', set, ARGV[1]), 0
  for _, id in ipairs(ids) do -- beside the texts there are three entries
    size = size + 300 + 3 * #id + call('HSTRLEN', b, id) + call('HSTRLEN', a, id)
    if logs then size = size + call('HSTRLEN', m, '\2' .. id) end
  end
  answer[i + 1] = count
  if count > 0 then answer[1] = answer[1] + size / #ids * count end
end
return answer
