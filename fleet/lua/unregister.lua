-- unregister(resume, reason, token and id ...): detaches sessions for resume ms. If resume is 0, or
-- a session was kicked, the session ends. Answers with a byte for each: "h" done, or a refusal.
local now, resume = math.floor(clock() / 1000), tonumber(ARGV[1])
local verdicts, ended, ids, seen = {}, {}, {}, {}
for i = 1, #ARGV - 2 do ids[i] = idOf(ARGV[i + 2]) end
local found = call('HMGET', e, unpack(ids))
for i, id in ipairs(ids) do
  local token, value = sub(ARGV[i + 2], 1, 12), found[i]
  local kicked = value == token .. 'k'
  if seen[id] or (value ~= token and not kicked) then
    verdicts[i] = seen[id] and 'x' or refusal(value, token)
  else
    local record = call('HGET', o, id)
    verdicts[i], seen[id] = 'h', true
    if resume > 0 and not kicked then
      disown(id, token, 'd', text(now + resume))
      call('HSET', o, id, sub(record, 1, 6) .. pack('>I4', resume) .. sub(record, 11))
    else
      ended[#ended + 1] = {id, value, kicked and 'k' or ARGV[2], now, record}
    end
  end
end
finish(ended, now)
return {table.concat(verdicts)}
