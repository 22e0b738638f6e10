-- unregister(resume, reason, id ..., tokens): with a resume window in ms, the sessions are
-- detached for so long; they end otherwise. Answers with a byte for each: "h" done, or a refusal.
-- Those that were kicked end in either case.
local now, resume = math.floor(clock() / 1000), tonumber(ARGV[1])
local verdicts, ended, tokens = {}, {}, ARGV[#ARGV]
local found, seen = call('HMGET', e, unpack(ARGV, 3, #ARGV - 1)), {}
for i = 1, #ARGV - 3 do
  local id, token, value = ARGV[i + 2], sub(tokens, 12 * i - 11, 12 * i), found[i]
  local kicked = value == token .. 'k'
  if seen[id] or (value ~= token and not kicked) then
    verdicts[i] = seen[id] and 'x' or refusal(value, token)
  else
    local record = call('HGET', o, id)
    verdicts[i], seen[id] = 'h', true
    if resume > 0 and not kicked then
      call('HSET', e, id, token .. 'd')
      call('HSET', o, id, sub(record, 1, 6) .. pack('>I4', resume) .. sub(record, 11))
      call('ZADD', l, text(now + resume), id)
    else
      ended[#ended + 1] = {id, token, kicked and 'k' or ARGV[2], now, record}
    end
  end
end
finish(ended, now)
return {table.concat(verdicts)}
