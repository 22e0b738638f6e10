-- extend(lease, id ..., tokens): answers with nothing where all are held, or with a byte for each:
-- "h" held, or a refusal.
local count, tokens = #ARGV - 2, ARGV[#ARGV]
local stop = text(math.ceil(clock() / 1000) + tonumber(ARGV[1])) -- never shorter than the node thinks
local found = call('HMGET', e, unpack(ARGV, 2, count + 1))
local leases = {}
-- All at once first, where all are there: whoever is online has nothing but a token.
local good, owners = pcall(table.concat, found)
if good and owners == tokens then
  for i = 1, count do leases[2 * i - 1], leases[2 * i] = stop, ARGV[i + 1] end
  call('ZADD', l, 'XX', unpack(leases))
  return {''}
end
local verdicts, held = {}, 0
for i = 1, count do
  local token = sub(tokens, 12 * i - 11, 12 * i)
  if found[i] == token then
    leases[held + 1], leases[held + 2] = stop, ARGV[i + 1]
    held, verdicts[i] = held + 2, 'h'
  else
    verdicts[i] = refusal(found[i], token)
  end
end
if held > 0 then call('ZADD', l, 'XX', unpack(leases)) end
return {table.concat(verdicts)}
