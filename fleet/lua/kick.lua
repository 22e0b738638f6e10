-- kick(channel, id): kicks a session. Answers with its token, state and record, or with an empty
-- string if it is not there. A detached session ends at once.
local now, id = math.floor(clock() / 1000), ARGV[2]
local value = call('HGET', e, id)
local state = value and sub(value, 13)
if not value or state == 'x' then return {''} end
local token, record = sub(value, 1, 12), call('HGET', o, id)
if state == 'd' then
  finish({{id, value, 'k', now, record}}, now)
else
  if state == '' then disown(id, token, 'k', call('ZSCORE', l, member(id, token))) end
  publish(ARGV[1] .. nodeOf(record), 'k' .. token .. id)
end
return {value, record}
