-- The keys of a slot. l has the sessions with the end of their lease as the score, in ms; e their
-- tokens and a byte for their state, if any; o their records. What has ended and was not told yet
-- is in x, with the time at which to tell as the score, and in y. m has the slot's own fields:
-- n and b the last epoch and the first one, r whose data it is, lo and hi the epochs that may have
-- been lost, last when it was swept, hold until when nothing expires, pass until when a large part
-- may, w and c since when how many have expired.
--
-- A token is epoch (7 bytes) and incarnation (5). States: none online, "k" kicked, "d" detached,
-- "x" ended. A record is since (6), length of the lease in ms (4), node (1 byte of length before
-- it), meta. What has ended is token, attempts (2), reason (1), last seen (6), record.
local pack, sub = struct.pack, string.sub

-- text writes a number in full: Lua's own way has 14 digits. To redis.call numbers are slow.
local function text(number) return string.format('%.0f', number) end

local function epochOf(token) return (struct.unpack('>I7', token)) end
local function leaseOf(record) return (struct.unpack('>I4', sub(record, 7, 10))) end
local function nodeOf(record) return sub(record, 12, 11 + string.byte(record, 11)) end

local function hold(now, lease)
  call('HSET', m, 'hold', text(now + lease), 'pass', text(now + 2 * lease))
end

-- begin returns the last epoch. A slot begins with the clock, so that its epochs are higher than
-- those that it gave before its data was lost. Where the data is another server's, the last
-- writes may be missing: those of sessions that are renewed, too.
local function begin(us, lease)
  local meta, name = call('HMGET', m, 'n', 'r'), server()
  if not meta[1] then
    call('HSET', m, 'n', text(us - 1), 'b', text(us), 'r', name, 'last', text(math.floor(us / 1000)))
    return us - 1
  end
  if meta[2] ~= name then
    call('HSET', m, 'r', name, 'lo', meta[1], 'hi', text(us))
    hold(math.floor(us / 1000), lease)
    return tonumber(meta[1]), true
  end
  return tonumber(meta[1])
end

local facts -- of the slot, once they are needed
local function chosen() facts = nil end

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

-- finish ends sessions: id, token, reason, last seen, record of each. They are told from now on.
local function finish(ended, now)
  if #ended == 0 then return end
  local ids, marks, events, times = {}, {}, {}, {}
  for i, session in ipairs(ended) do
    local id, token, reason, seen, record = unpack(session)
    ids[i] = id
    marks[2 * i - 1], marks[2 * i] = id, token .. 'x'
    events[2 * i - 1], events[2 * i] = id, token .. '\0\0' .. reason .. pack('>I6', math.max(seen, 0)) .. record
    times[2 * i - 1], times[2 * i] = text(now), id
  end
  call('ZREM', l, unpack(ids))
  call('HDEL', o, unpack(ids))
  call('HSET', e, unpack(marks))
  call('HSET', y, unpack(events))
  call('ZADD', x, unpack(times))
end
