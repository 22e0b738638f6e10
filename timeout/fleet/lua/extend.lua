-- extend(lease, id, token ...): answers with a byte for each: "h" held, or a refusal.
local stop = text(math.ceil(clock() / 1000) + tonumber(ARGV[1])) -- never shorter than the node thinks
local ids, verdicts, held, count = {}, {}, {}, 0
for i = 2, #ARGV, 2 do ids[i / 2] = ARGV[i] end
local found = call('HMGET', e, unpack(ids))
for i = 1, #ids do
  local token = ARGV[2 * i + 1]
  if found[i] == token then
    verdicts[i] = 'h'
    held[count + 1], held[count + 2] = stop, ids[i]
    count = count + 2
  else
    verdicts[i] = refusal(found[i], token)
  end
end
if count > 0 then call('ZADD', l, 'XX', unpack(held)) end
return {table.concat(verdicts)}
