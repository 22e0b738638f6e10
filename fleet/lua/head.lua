-- The keys of a slot:
-- l   sorted set of the sessions, as members (see member). The score is the end of the lease, in ms.
-- e   the sessions' tokens by id, each followed by a byte for the state, if any.
-- o   the sessions' records by id.
-- x   sorted set of the ends not told yet, by id. The score is the time to tell them.
-- y   the same ends by id, with all of their data.
-- a   sorted set of the incarnations of nodes that have taken ends. The score is the score of the
--     last ones in x: until then no other node takes them.
-- m   the slot's own fields: n the last epoch, b the first epoch, r the name of the server's data, lo
--     and hi the range of epochs that may be lost, last the time of the last sweep. Nothing expires
--     until hold; a large share may expire until pass. c sessions have expired since w. nhold, npass,
--     nw and nc are the same for nodes. rules are the times of the nodes, see agree.
-- If nodes have leases:
-- g   sorted set of the nodes' incarnations. The score is the end of the node's lease.
-- t   the slot's terms for the nodes, each with the length of the node's lease.
-- d   the nodes with a lease that is over, until all of their sessions are found: last seen (6), and
--     the cursor of the walk through e.
--
-- A token is epoch (7 bytes) and incarnation (5). States: none online, "k" kicked, "d" detached,
-- "x" ended. A record is since (6), length of the lease in ms (4), node (after 1 byte of length),
-- meta. An end is token, attempts (2), reason (1), last seen (6), record.
local pack, sub = struct.pack, string.sub

-- text writes a number with all of its digits: Lua itself writes only 14. redis.call is slow with
-- numbers.
local function text(number) return string.format('%.0f', number) end

-- publish tells a node early about a change that it would find later anyway. So publish ignores
-- errors, for example if it is not allowed: the caller still needs the answer about its writes.
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

-- doubt makes the slot forget all nodes. Each node gets a new term with its next beat, and looks at
-- all of its sessions. A node taken for dead may have come back since; it beats before the hold is
-- over. The walks begin again, because another server does not understand their cursors.
local function doubt(now, nodeLease)
  local dead = call('HGETALL', d)
  for i = 1, #dead, 2 do call('HSET', d, dead[i], sub(dead[i + 1], 1, 6) .. '0') end
  call('DEL', t)
  holdNodes(now, nodeLease)
end

-- wider returns the longer leases and the shorter intervals of two rules. Rules are four times in ms,
-- in 4 bytes each: lease, interval of renewals, lease of a node or 0, and the shortest interval of
-- all.
local function wider(one, other)
  local lease, renew, nodeLease, beat = struct.unpack('>I4I4I4I4', one)
  local lease2, renew2, nodeLease2, beat2 = struct.unpack('>I4I4I4I4', other)
  return pack('>I4I4I4I4', math.max(lease, lease2), math.min(renew, renew2), math.max(nodeLease, nodeLease2), math.min(beat, beat2))
end

-- agree returns the rules of a slot: the longest leases and the shortest intervals named by any node
-- today, or on the last day of use before. So nodes may have different rules during a change.
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

-- begin returns the last epoch, the four rules of the slot, and whether its data is from another
-- server. The first epoch is the time, so new epochs are higher than those from before a loss of
-- the data. If the data is from another server, the last writes may be missing, even those of renewed
-- sessions.
local function begin(us, rules)
  local meta, name = call('HMGET', m, 'n', 'r', 'rules'), server()
  local lease, renew, nodeLease, beat = agree(meta[3], rules, math.floor(us / 1000))
  if not meta[1] then
    call('HSET', m, 'n', text(us - 1), 'b', text(us), 'r', name, 'last', text(math.floor(us / 1000)))
    return us - 1, lease, renew, nodeLease, beat
  end
  local last, other = tonumber(meta[1]), meta[2] ~= name
  if other then
    -- A node may ask within a lease for an epoch lost with the server before that.
    local lo, hi = unpack(call('HMGET', m, 'lo', 'hi'))
    if not lo or us - hi > lease * 1000 then lo = meta[1] end
    -- Lost epochs are no higher than the time. If the clock was set back, they follow the last epoch:
    -- then a minute of epochs is left out.
    if us <= last then last = last + 60000000 end
    call('HSET', m, 'r', name, 'lo', lo, 'hi', text(math.max(us, last)), 'n', text(last))
    hold(math.floor(us / 1000), lease)
    if nodeLease > 0 then doubt(math.floor(us / 1000), nodeLease) end
  end
  return last, lease, renew, nodeLease, beat, other
end

local walks = 4 -- largest number of steps of walk in one run

-- extendNode extends a node's lease. It returns the slot's term for the node, and the last epoch. If
-- the slot did not know the node, or has taken it for dead, both are new.
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

-- member returns a session's member in l. A node extends a session by naming its member. So the
-- member begins with the token while the session may be extended, and with zeros after that.
local nobody = string.rep('\0', 12)
local function member(id, value) return (#value == 12 and value or nobody) .. id end
local function idOf(member) return sub(member, 13) end

-- disown gives a session a state until stop. No node can extend it any more.
local function disown(id, token, state, stop)
  call('ZREM', l, member(id, token))
  call('ZADD', l, stop, member(id, token .. state))
  call('HSET', e, id, token .. state)
end

local facts -- fields of m for refusal, read once
local function chosen() facts = nil end -- called after a change to another slot, see package redisrun

-- refusal returns why a token does not hold the session: "s" somebody has registered it since, "k"
-- kicked, "x" ended, "u" the server has lost it.
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

-- finish ends sessions: id, token and state, reason, last seen, record of each. Their ends can be
-- told from now on.
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
