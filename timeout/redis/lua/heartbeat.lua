-- heartbeat(name, ttl, topics, run): the node is there for ttl. It returns name, number and topics of
-- each, then the run of the node's record before, or '' if that was not alive. Runs
-- have a key of their own: nodes of an earlier version read records without them.
local ends, nodes, state, runs = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local before = ''

for _, name in ipairs(call('ZRANGE', ends, '-inf', now, 'BYSCORE')) do
  if name ~= ARGV[1] then
    call('ZREM', ends, name)
    call('HDEL', nodes, name)
    call('HDEL', runs, name)
  end
end

local kept = call('HGET', nodes, ARGV[1])
local number = kept and call('ZSCORE', ends, ARGV[1]) and struct.unpack('>I8', kept)
if ARGV[2] == '' then -- leave
  call('ZREM', ends, ARGV[1])
  call('HDEL', nodes, ARGV[1])
  call('HDEL', runs, ARGV[1])
else
  local late, run = number and tonumber(call('ZSCORE', ends, ARGV[1])) <= now, call('HGET', runs, ARGV[1])
  if run and number and not late then before = run end
  if run ~= ARGV[4] then call('HSET', runs, ARGV[1], ARGV[4]) end
  if not number or late then number = call('HINCRBY', state, 'number', 1) end
  local record = struct.pack('>I8I8', number, ARGV[2]) .. ARGV[3]
  if kept ~= record then call('HSET', nodes, ARGV[1], record) end
  call('ZADD', ends, now + ARGV[2], ARGV[1])
end
if call('HLEN', runs) > call('HLEN', nodes) then -- a node of an earlier version took some away
  for _, name in ipairs(call('HKEYS', runs)) do
    if call('HEXISTS', nodes, name) == 0 then call('HDEL', runs, name) end
  end
end

-- An end with more before it than a node's ttl was set before the clock was stepped back.
local last = call('ZRANGE', ends, 0, -1, 'WITHSCORES')
for i = 1, #last, 2 do
  local record = call('HGET', nodes, last[i])
  local _, ttl = struct.unpack('>I8I8', record)
  if tonumber(last[i + 1]) > now + ttl then call('ZADD', ends, now + ttl, last[i]) end
end
return {call('HGETALL', nodes), before}
