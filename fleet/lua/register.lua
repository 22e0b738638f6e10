-- register(rules, incarnation, node, channel, id, token, meta ...): registers sessions, and extends
-- the node's lease. With a token, a session is registered only if its present epoch, if any, is lower.
-- Answers for each with its earlier state ("n" none, "m" with an owner, "r" detached, "e" ended and not
-- told; or "s" if it was not registered), its epoch, and the earlier value and record. The last part
-- of the answer is the node's term.
local us, lease, _, nodeLease = clock(), struct.unpack('>I4I4I4', ARGV[1])
local now = math.floor(us / 1000)
local last, term = begin(us, ARGV[1]), 0
local incarnation, channel = ARGV[2], ARGV[4]
if nodeLease > 0 then term, last = extendNode(us, nodeLease, incarnation, last) end
local owner = string.char(#ARGV[3]) .. ARGV[3]
local stop, count = text(math.ceil(us / 1000) + lease), (#ARGV - 4) / 3
local ids = {}
for i = 1, count do ids[i] = ARGV[3 * i + 2] end
local found = call('HMGET', e, unpack(ids))
local tokens, records, times, gone, told, drop, answers = {}, {}, {}, {}, {}, {}, {}
local here = {} -- sessions registered by this call
for i = 1, count do
  local id, claim, since, kind = ids[i], ARGV[3 * i + 3], now, 'n'
  local old, before = found[i] or nil, ''
  if here[id] then old, before = unpack(here[id]) elseif old then before = call('HGET', o, id) or '' end
  local state = old and sub(old, 13)
  if old and claim ~= '' and epochOf(old) >= epochOf(claim) then
    answers[i] = {'s', 0, old, before}
  else
    if state == 'd' then
      kind, since = 'r', struct.unpack('>I6', before)
    elseif state == 'x' then
      kind = 'e'
      drop[#drop + 1] = id
    elseif old then
      kind = 'm'
      if sub(old, 8, 12) ~= incarnation then
        told[#told + 1] = {channel .. nodeOf(before), 's' .. sub(old, 1, 12) .. id}
      end
    end
    last = math.max(last + 1, us)
    if old and state ~= 'x' then gone[#gone + 1] = member(id, old) end
    local token = pack('>I7', last) .. incarnation
    local record = pack('>I6I4', since, lease) .. owner .. ARGV[3 * i + 4]
    here[id] = {token, record}
    tokens[#tokens + 1], tokens[#tokens + 2] = id, token
    records[#records + 1], records[#records + 2] = id, record
    times[#times + 1], times[#times + 2] = stop, member(id, token)
    answers[i] = {kind, last, old or '', before}
  end
end
if #tokens > 0 then
  call('HSET', m, 'n', text(last))
  call('HSET', e, unpack(tokens))
  call('HSET', o, unpack(records))
  call('ZADD', l, unpack(times))
end
if #gone > 0 then call('ZREM', l, unpack(gone)) end
if #drop > 0 then
  call('ZREM', x, unpack(drop))
  call('HDEL', y, unpack(drop))
end
for _, message in ipairs(told) do publish(message[1], message[2]) end
answers[count + 1] = term
return answers
