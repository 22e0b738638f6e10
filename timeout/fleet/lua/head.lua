-- The keys of a slot. l has the sessions with the end of their lease as the score, in ms, by member; e their
-- tokens and a byte for their state, if any; o their records. What has ended and was not told yet
-- is in x, with the time at which to tell as the score, and in y. a has the incarnations of those
-- who have taken ends to tell, with the time as the score that the last ones have in x: until then
-- nobody else takes them. m has the slot's own fields:
-- n and b the last epoch and the first one, r whose data it is, lo and hi the epochs that may have
-- been lost, last when it was swept, hold until when nothing expires, pass until when a large part
-- may, w and c since when how many have expired; nhold, npass, nw and nc are those for nodes. rules
-- is what nodes go by.
--
-- Where nodes have leases, g has their incarnations with the end of it as the score, and t the
-- terms under which the slot knows them, each with the length of the lease. d has those whose lease
-- is over, until all of their sessions were looked for: last seen (6), and the cursor of the walk
-- through e.
--
-- A token is epoch (7 bytes) and incarnation (5). States: none online, "k" kicked, "d" detached,
-- "x" ended. A record is since (6), length of the lease in ms (4), node (1 byte of length before
-- it), meta. What has ended is token, attempts (2), reason (1), last seen (6), record.
local pack, sub = struct.pack, string.sub

-- text writes a number in full: Lua's own way has 14 digits. To redis.call numbers are slow.
local function text(number) return string.format('%.0f', number) end

-- publish tells a node what it would find later, too. So where that is not allowed, what was
-- written before still gets its answer.
local function publish(channel, message) redis.pcall('PUBLISH', channel, message) end

local function epochOf(token) return (struct.unpack('>I7', token)) end
local function leaseOf(record) return (struct.unpack('>I4', sub(record, 7, 10))) end
local function nodeOf(record) return sub(record, 12, 11 + string.byte(record, 11)) end

local function hold(now, lease)
  call('HSET', m, 'hold', text(now + lease), 'pass', text(now + 2 * lease))
end

local function holdNodes(now, nodeLease)
  call('HSET', m, 'nhold', text(now + nodeLease), 'npass', text(now + 2 * nodeLease))
end

-- doubt has the slot know no node: each learns of a new term with its next beat, and looks at all
-- of its sessions. One that was taken for dead may have come back since, and beats before the hold
-- is over. A cursor means nothing to another server.
local function doubt(now, nodeLease)
  local dead = call('HGETALL', d)
  for i = 1, #dead, 2 do call('HSET', d, dead[i], sub(dead[i + 1], 1, 6) .. '0') end
  call('DEL', t)
  holdNodes(now, nodeLease)
end

-- wider returns the longer leases, and the shorter renewals, of two rules: lease, renewal, lease of a
-- node or 0, and beat, how often anything is extended at least; each in ms, in 4 bytes.
local function wider(one, other)
  local lease, renew, nodeLease, beat = struct.unpack('>I4I4I4I4', one)
  local lease2, renew2, nodeLease2, beat2 = struct.unpack('>I4I4I4I4', other)
  return pack('>I4I4I4I4', math.max(lease, lease2), math.min(renew, renew2), math.max(nodeLease, nodeLease2), math.min(beat, beat2))
end

-- agree returns what a slot goes by: the longest leases and the shortest renewals that anybody has
-- named today or yesterday. So nodes may have other rules while these are being changed.
local function agree(kept, rules, now)
  local day = pack('>I4', math.floor(now / 86400000))
  if kept == day .. rules .. rules then return struct.unpack('>I4I4I4I4', rules) end
  local today, before = rules, rules
  if kept and sub(kept, 1, 4) == day then
    today, before = wider(rules, sub(kept, 5, 20)), sub(kept, 21)
  elseif kept then
    before = sub(kept, 5, 20)
  end
  local all = day .. today .. before
  if all ~= kept then call('HSET', m, 'rules', all) end
  return struct.unpack('>I4I4I4I4', wider(today, before))
end

-- begin returns the last epoch, what the slot goes by, and whether its data is another server's. A
-- slot begins with the clock, so that its epochs are higher than those that it gave before its data
-- was lost. Where the data is another server's, the last writes may be missing: those of sessions
-- that are renewed, too.
local function begin(us, rules)
  local meta, name = call('HMGET', m, 'n', 'r', 'rules'), server()
  local lease, renew, nodeLease, beat = agree(meta[3], rules, math.floor(us / 1000))
  if not meta[1] then
    call('HSET', m, 'n', text(us - 1), 'b', text(us), 'r', name, 'last', text(math.floor(us / 1000)))
    return us - 1, lease, renew, nodeLease, beat
  end
  if meta[2] ~= name then
    call('HSET', m, 'r', name, 'lo', meta[1], 'hi', text(us))
    hold(math.floor(us / 1000), lease)
    if nodeLease > 0 then doubt(math.floor(us / 1000), nodeLease) end
  end
  return tonumber(meta[1]), lease, renew, nodeLease, beat, meta[2] ~= name
end

local walks = 4 -- how many steps of looking for dead nodes' sessions one run may take

-- extendNode gives a node its lease. It returns the term under which the slot knows the node, and
-- the last epoch: where it did not know it, or has taken it for dead, that is a new one.
local function extendNode(us, nodeLease, incarnation, last)
  call('ZADD', g, text(math.ceil(us / 1000) + nodeLease), incarnation)
  local term = call('HGET', t, incarnation)
  if term then return tonumber(string.match(term, '%d+')), last end
  last = math.max(last + 1, us)
  call('HSET', m, 'n', text(last))
  call('HSET', t, incarnation, text(last) .. ' ' .. nodeLease)
  call('HDEL', d, incarnation)
  return last, last
end

-- member is what a session is in l: who knows it can extend it, so it begins with the token where
-- that is allowed, and with none where it is not any more.
local nobody = string.rep('\0', 12)
local function member(id, value) return (#value == 12 and value or nobody) .. id end
local function idOf(member) return sub(member, 13) end

-- disown has nobody extend a session any more, which stays in a state until a lease is over.
local function disown(id, token, state, stop)
  call('ZREM', l, member(id, token))
  call('ZADD', l, stop, member(id, token .. state))
  call('HSET', e, id, token .. state)
end

local facts -- of the slot, once they are needed
local function chosen() facts = nil end -- called when the keys are another slot's, see package redisrun

-- refusal says why a token is not the owner's: "s" somebody has it since, "k" kicked, "x" it has
-- ended, "u" the server has lost it.
local function refusal(value, token)
  if value and sub(value, 1, 12) == token then
    return sub(value, 13) == 'k' and 'k' or 'x'
  end
  local epoch = epochOf(token)
  if value then return epochOf(value) >= epoch and 's' or 'u' end
  facts = facts or call('HMGET', m, 'n', 'b', 'lo', 'hi')
  if not facts[1] or epoch > tonumber(facts[1]) or epoch < tonumber(facts[2]) then return 'u' end
  if facts[3] and epoch > tonumber(facts[3]) and epoch <= tonumber(facts[4]) then return 'u' end
  return 'x'
end

-- finish ends sessions: id, token and state, reason, last seen, record of each. They are told from now on.
local function finish(ended, now)
  if #ended == 0 then return end
  local ids, members, marks, events, times = {}, {}, {}, {}, {}
  for i, session in ipairs(ended) do
    local id, value, reason, seen, record = unpack(session)
    local token = sub(value, 1, 12)
    ids[i], members[i] = id, member(id, value)
    marks[2 * i - 1], marks[2 * i] = id, token .. 'x'
    events[2 * i - 1], events[2 * i] = id, token .. '\0\0' .. reason .. pack('>I6', math.max(seen, 0)) .. record
    times[2 * i - 1], times[2 * i] = text(now), id
  end
  call('ZREM', l, unpack(members))
  call('HDEL', o, unpack(ids))
  call('HSET', e, unpack(marks))
  call('HSET', y, unpack(events))
  call('ZADD', x, unpack(times))
end
