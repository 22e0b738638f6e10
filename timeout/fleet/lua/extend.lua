-- extend(lease, token and id ...): answers with nothing where all are held, or with a byte for each:
-- "h" held, or a refusal.
local count, leases = #ARGV - 1, {}
local stop = text(math.ceil(clock() / 1000) + tonumber(ARGV[1])) -- never shorter than the node thinks
for i = 1, count do leases[2 * i - 1], leases[2 * i] = stop, ARGV[i + 1] end
-- Only what may be extended is in l with its token. What lasts until then already is not counted.
if call('ZADD', l, 'XX', 'CH', unpack(leases)) == count then return {''} end
local ids, verdicts = {}, {}
for i = 1, count do ids[i] = idOf(ARGV[i + 1]) end
local found = call('HMGET', e, unpack(ids))
for i = 1, count do
  local token = sub(ARGV[i + 1], 1, 12)
  verdicts[i] = found[i] == token and 'h' or refusal(found[i], token)
end
return {table.concat(verdicts)}
