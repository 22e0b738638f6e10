-- unregisterlost(rules, resume, reason, node, token and id, meta ...): is unregister for sessions lost by
-- the server, with what it does not know any more. Answers with a byte for each: "h" done, or a refusal.
local us, resume = clock(), tonumber(ARGV[2])
begin(us, ARGV[1])
local now, owner, verdicts = math.floor(us / 1000), string.char(#ARGV[4]) .. ARGV[4], {}
for i = 5, #ARGV, 2 do
  local token, id = sub(ARGV[i], 1, 12), idOf(ARGV[i])
  local value = call('HGET', e, id)
  local verdict = refusal(value, token)
  if verdict == 'u' then
    verdict = 'h'
    if value then -- of an earlier registration
      call('ZREM', l, member(id, value))
      call('ZREM', x, id)
      call('HDEL', y, id)
    end
    local record = pack('>I6I4', math.floor(epochOf(token) / 1000), resume) .. owner .. ARGV[i + 1]
    if resume > 0 then
      disown(id, token, 'd', text(now + resume))
      call('HSET', o, id, record)
    else
      finish({{id, token, ARGV[3], now, record}}, now)
    end
  end
  verdicts[#verdicts + 1] = verdict
end
return {table.concat(verdicts)}
