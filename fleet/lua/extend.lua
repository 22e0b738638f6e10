-- extend(lease, token and id ...): extends the leases of sessions. Answers with an empty string if
-- all are held, else with a byte for each: "h" held, or a refusal.
local count, leases = #ARGV - 1, {}
local stop = text(math.ceil(clock() / 1000) + tonumber(ARGV[1])) -- never shorter than the node thinks
for i = 1, count do leases[2 * i - 1], leases[2 * i] = stop, ARGV[i + 1] end
-- Only sessions that may be extended are in l with their token. CH does not count a session that
-- already has the same end.
if call('ZADD', l, 'XX', 'CH', unpack(leases)) == count then return {''} end
local ids, verdicts = {}, {}
for i = 1, count do ids[i] = idOf(ARGV[i + 1]) end
local found = call('HMGET', e, unpack(ids))
for i = 1, count do
  local token = sub(ARGV[i + 1], 1, 12)
  verdicts[i] = found[i] == token and 'h' or refusal(found[i], token)
end
return {table.concat(verdicts)}
