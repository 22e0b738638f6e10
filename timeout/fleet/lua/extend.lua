-- extend(lease, id, token ...): answers with nothing where all are held, or with a byte for each:
-- "h" held, or a refusal.
local stop = text(math.ceil(clock() / 1000) + tonumber(ARGV[1])) -- never shorter than the node thinks
local ids, leases, verdicts, count, held = {}, {}, nil, 0, 0
for i = 2, #ARGV, 2 do
  count = count + 1
  ids[count] = ARGV[i]
end
local found = call('HMGET', e, unpack(ids))
for i = 1, count do
  local token = ARGV[2 * i + 1]
  if found[i] == token then
    leases[held + 1], leases[held + 2] = stop, ids[i]
    held = held + 2
    if verdicts then verdicts[i] = 'h' end
  else
    if not verdicts then
      verdicts = {}
      for j = 1, i - 1 do verdicts[j] = 'h' end
    end
    verdicts[i] = refusal(found[i], token)
  end
end
if held > 0 then call('ZADD', l, 'XX', unpack(leases)) end
return {verdicts and table.concat(verdicts) or ''}
