-- sweep(max, rules, share, least, delivery, retry, longest, incarnation, mark, id, token, attempts,
-- after ...): settles outcomes, then ends sessions with a lease that is over, and then takes ends to
-- tell. For delivery ms no other node takes these. If max is 0, sweep only looks; if it is less,
-- sweep only settles. An end with an empty after is done; else it is told again in after ms. If more
-- than share of the sessions, and at least least, are over at once, the slot is held back. A share of
-- 0 means never. No end waits longer than retry, and no lease is longer than longest, if all nodes
-- have the same rules. mark is the score of the last ends certainly taken by the node, or -1 if no
-- later call lacks an answer.
--
-- The answer: the time; for how many ms nothing expires, and why, if this call has begun that; the
-- number of leases that are over; the ids and the ends to tell; 1 if the walk for sessions of dead
-- nodes goes on, else 0; and the slot's shortest interval, see rules.
local us, max = clock(), tonumber(ARGV[1])
local now = math.floor(us / 1000)
local present = text(now)

if #ARGV > 9 then
  local ids = {}
  for i = 10, #ARGV, 4 do ids[(i - 6) / 4] = ARGV[i] end
  local events, owners = call('HMGET', y, unpack(ids)), call('HMGET', e, unpack(ids))
  local done = {}
  for i = 1, #ids do
    local id, token, attempts, after = unpack(ARGV, 4 * i + 6, 4 * i + 9)
    local event = not done[id] and events[i]
    if event and sub(event, 1, 12) == token then
      if after == '' then
        done[id] = true
        call('ZREM', x, id)
        call('HDEL', y, id)
        if owners[i] == token .. 'x' then call('HDEL', e, id) end
      elseif struct.unpack('>I2', sub(event, 13, 14)) == tonumber(attempts) then
        call('ZADD', x, text(now + tonumber(after)), id)
      end
    end
  end
end
if max < 0 then return {now, 0, '', 0, {}, {}, 0} end

local meta = call('HMGET', m, 'n', 'last', 'hold', 'pass', 'w', 'c', 'nhold', 'npass', 'nw', 'nc')
if not meta[1] then return {now, 0, '', 0, {}, {}, 0} end
local _, lease, renew, nodeLease, beat, other = begin(us, ARGV[2])
local last, held, pass = tonumber(meta[2]), tonumber(meta[3] or 0), tonumber(meta[4] or 0)
local why = ''
-- While no node could sweep, none could renew. After the clock was set forward, older leases seem to
-- be over. After it was set back, they seem to last too long.
if now - last > renew then why = 'gap'
elseif last - now > 1000 then why = 'clock'
elseif other then why = 'server' end
if why ~= '' or held > now + lease then
  hold(now, lease)
  held = now + lease
end
local nodesHeld, nodesPass = tonumber(meta[7] or 0), tonumber(meta[8] or 0)
if nodeLease > 0 and (why ~= '' or now - last > beat or nodesHeld > now + nodeLease) then
  if now - last > beat and why == '' then why = 'beats' end
  holdNodes(now, nodeLease)
  nodesHeld = now + nodeLease
end
-- last is written only now and then, because replicas and files get each write.
if now - last > beat / 8 or last - now > 1000 then call('HSET', m, 'last', present) end

-- shorten mends scores after the clock was set back: a score more than limit in the future is cut. If
-- known is a key, the cut is to the length of the member's own lease, by lengthOf and its field in
-- known. So leases with longer rules are not cut too short.
local function shorten(key, limit, known, lengthOf, fieldOf)
  local far = call('ZRANGE', key, '(' .. text(now + limit), '+inf', 'BYSCORE', 'LIMIT', '0', '256')
  if #far == 0 then return end
  local times, fields = {}, {}
  for i = 1, #far do fields[i] = fieldOf and fieldOf(far[i]) or far[i] end
  local own = known and call('HMGET', known, unpack(fields))
  for i = 1, #far do
    times[2 * i - 1], times[2 * i] = text(now + (known and lengthOf(own[i]) + 1 or limit)), far[i]
  end
  call('ZADD', key, 'XX', 'LT', unpack(times))
end
shorten(l, tonumber(ARGV[7]), o, leaseOf, idOf)
shorten(x, tonumber(ARGV[6]))

-- lengthOf returns the length of a node's lease, from its field in t. If the slot no longer knows the
-- node, it returns nodeLease.
local function lengthOf(term)
  return term and tonumber(string.match(term, ' (%d+)')) or nodeLease
end
local share = tonumber(ARGV[3])

-- bury takes nodes for dead when their lease is over.
local function bury()
  local count = call('ZCOUNT', g, '-inf', present)
  if count == 0 then return end
  local window, buried = tonumber(meta[9] or 0), tonumber(meta[10] or 0)
  if now - window > nodeLease or window > now then window, buried = now, 0 end
  local all = call('ZCARD', g) + buried
  if share > 0 and all > 1 and count + buried > share * all and nodesPass <= now then
    why, nodesHeld = 'nodes', now + nodeLease
    holdNodes(now, nodeLease)
    return
  end
  local over = call('ZRANGE', g, '-inf', present, 'BYSCORE', 'LIMIT', '0', '256', 'WITHSCORES')
  local gone, dead = {}, {}
  for i = 1, #over, 2 do gone[(i + 1) / 2] = over[i] end
  local terms = call('HMGET', t, unpack(gone))
  for i = 1, #gone do
    local seen = tonumber(over[2 * i]) - lengthOf(terms[i])
    dead[2 * i - 1], dead[2 * i] = gone[i], pack('>I6', math.max(seen, 0)) .. '0'
  end
  call('ZREM', g, unpack(gone))
  call('HDEL', t, unpack(gone))
  call('HSET', d, unpack(dead))
  call('HSET', m, 'nw', text(window), 'nc', text(buried + #gone))
end

-- walk does a step through e, and ends the sessions of dead nodes, but not the detached ones. Nodes
-- that died together share a walk. It returns 1 if there is more to do, else 0.
local function walk()
  local dead, seen, names = call('HGETALL', d), {}, {}
  if #dead == 0 then return 0 end
  if walks == 0 then return 1 end
  walks = walks - 1
  local cursor = sub(dead[2], 7)
  for i = 1, #dead, 2 do
    if sub(dead[i + 1], 7) == cursor then
      names[#names + 1] = dead[i]
      seen[dead[i]] = struct.unpack('>I6', dead[i + 1])
    end
  end
  local found, some, times = call('HSCAN', e, cursor, 'COUNT', '128'), {}, {}
  for i = 1, #found[2], 2 do
    local id, value = found[2][i], found[2][i + 1]
    local at, state = seen[sub(value, 8, 12)], sub(value, 13)
    if at and (state == '' or state == 'k') and not times[id] then
      times[id] = at
      some[#some + 1] = {id, value, state == '' and 'e' or state, at}
    end
  end
  -- HSCAN may return many more than 128.
  for from = 1, #some, 512 do
    local part, ids = {unpack(some, from, math.min(from + 511, #some))}, {}
    for i = 1, #part do ids[i] = part[i][1] end
    local records = call('HMGET', o, unpack(ids))
    for i = 1, #part do part[i][5] = records[i] end
    finish(part, now)
  end
  if found[1] == '0' then
    call('HDEL', d, unpack(names))
    return #names * 2 < #dead and 1 or 0
  end
  for _, name in ipairs(names) do call('HSET', d, name, pack('>I6', seen[name]) .. found[1]) end
  return 1
end

local more = 0
if nodeLease > 0 then
  shorten(g, nodeLease + 1, t, lengthOf)
  if nodesHeld <= now then bury() end
  if nodesHeld <= now and max > 0 then more = walk() end
end

-- served returns how many of the due leases a node had to extend. The others are of detached sessions
-- at the end of their wait. It looks at the first 1024, and projects from these.
local function served(due)
  local ids, count = call('ZRANGE', l, '-inf', present, 'BYSCORE', 'LIMIT', '0', '1024'), 0
  for i = 1, #ids do ids[i] = idOf(ids[i]) end
  for _, value in ipairs(call('HMGET', e, unpack(ids))) do
    if sub(value, 13) ~= 'd' then count = count + 1 end
  end
  return math.ceil(count * due / #ids)
end

local due = call('ZCOUNT', l, '-inf', present)
if due > 0 and held <= now and max > 0 then
  local window, expired = tonumber(meta[5] or 0), tonumber(meta[6] or 0)
  if now - window > lease or window > now then window, expired = now, 0 end
  local all, dead = call('ZCARD', l) + expired, 0
  if share > 0 and due + expired > share * all and pass <= now then dead = served(due) end
  if dead >= tonumber(ARGV[4]) and dead + expired > share * all then
    why, held = 'share', now + lease
    hold(now, lease)
  else
    local over = call('ZRANGE', l, '-inf', present, 'BYSCORE', 'LIMIT', '0', ARGV[1], 'WITHSCORES')
    local ids, ended = {}, {}
    for i = 1, #over, 2 do ids[(i + 1) / 2] = idOf(over[i]) end
    local owners, records = call('HMGET', e, unpack(ids)), call('HMGET', o, unpack(ids))
    for i = 1, #ids do
      local value, record = owners[i], records[i]
      local state, seen = sub(value, 13), tonumber(over[2 * i]) - leaseOf(record)
      ended[i] = {ids[i], value, state == '' and 'e' or state, seen, record}
      if state ~= 'd' then expired = expired + 1 end
    end
    finish(ended, now)
    call('HSET', m, 'w', text(window), 'c', text(expired))
  end
end

-- Ends that were taken by a call without an answer are due at once, as if they had not been taken. If
-- another node has taken ends in the same millisecond, these are told twice.
local by, mark = ARGV[8], tonumber(ARGV[9])
local lost = mark >= 0 and tonumber(call('ZSCORE', a, by) or 0) or 0
if lost > now and lost ~= mark then
  call('ZREM', a, by)
  for _, id in ipairs(call('ZRANGE', x, text(lost), text(lost), 'BYSCORE')) do
    local event = call('HGET', y, id)
    local attempts = math.max(struct.unpack('>I2', sub(event, 13, 14)) - 1, 0)
    call('HSET', y, id, sub(event, 1, 12) .. pack('>I2', attempts) .. sub(event, 15))
    call('ZADD', x, present, id)
  end
end

local ids = call('ZRANGE', x, '-inf', present, 'BYSCORE', 'LIMIT', '0', ARGV[1])
local events = {}
if #ids > 0 then
  events = call('HMGET', y, unpack(ids))
  local again, times, stop = {}, {}, text(now + tonumber(ARGV[5]))
  for i = 1, #ids do
    local attempts = math.min(struct.unpack('>I2', sub(events[i], 13, 14)) + 1, 65535)
    events[i] = sub(events[i], 1, 12) .. pack('>I2', attempts) .. sub(events[i], 15)
    again[2 * i - 1], again[2 * i] = ids[i], events[i]
    times[2 * i - 1], times[2 * i] = stop, ids[i]
  end
  call('HSET', y, unpack(again))
  call('ZADD', x, unpack(times))
  call('ZREMRANGEBYSCORE', a, '-inf', present)
  call('ZADD', a, stop, by)
end
local silence = why == '' and 0 or ((why == 'beats' or why == 'nodes') and nodesHeld or held) - now
return {now, silence, why, due, ids, events, more, beat}
