-- The keys of a partition. All have its hash tag, so they are on one server. s, p, f, d and r
-- are the sets of ids by state, in the order of timeout.State, with what Task.Until is as the
-- score; b holds the bodies, a what is known of attempts, m the partition's own fields, and t the
-- ids from the partitions of before the topic grew. The script is for one partition, with its
-- arguments in ARGV.
local sets
local function chosen() sets = {s, p, f, d, r} end
local call = redis.call
local pack, byte, sub = struct.pack, string.byte, string.sub

-- text writes a number in full: Lua's own way has 14 digits. To redis.call numbers are slow.
local function text(number) return string.format('%.0f', number) end

local moment, micros
local function clock()
  if not moment then
    local time = call('TIME')
    moment, micros = time[1] * 1000 + math.floor(time[2] / 1000), time[1] * 1000000 + time[2]
  end
  return moment
end

-- numbers takes count numbers, and returns the one before them. last is the partition's last one. The clock
-- in microseconds is another bound: a server may have lost its last writes, in a crash or a failover,
-- and gives no number a second time.
local function numbers(last, count)
  clock()
  local before = math.max(tonumber(last), micros)
  call('HSET', m, 'n', text(before + count))
  return before
end

-- A partition answers "gone" if it was never made or has lost its data, and "sealed" if it accepts nothing
-- any more. The client looks at the topic again. Nothing has been done then.
local function refusal(meta)
  if not meta[1] then return 'gone' end
  if meta[2] then return 'sealed' end
end

-- heed takes over what a topic says. paused is 0, 1, or when the pause ends. That is kept with the rev: scripts of an earlier
-- version know only whether the partition is paused, so another rev has another pause.
local function heed(rev, retain, paused)
  local ends = paused ~= '0' and paused ~= '1'
  call('HSET', m, 'rev', rev, 'retain', retain, 'paused', ends and '1' or paused)
  if ends then call('HSET', m, 'until', rev .. ' ' .. paused) end
end

-- states returns for each id the number of its state and its score, or nothing if the
-- task is not there.
local function states(ids)
  local state, score, left = {}, {}, #ids
  for number = 1, 5 do
    if left == 0 then break end
    local found = call('ZMSCORE', sets[number], unpack(ids))
    for i = 1, #ids do
      if found[i] then
        state[i], score[i], left = number, found[i], left - 1
      end
    end
  end
  return state, score
end

-- An attempt is kept as lease (7 bytes, zero for none), attempts (4), action time (6),
-- length of the lease in ms (4), node (1 byte of length before it), error, and perhaps a history.
local noLease, noTime = string.rep('\0', 7), string.rep('\0', 6)

local function attempts(record)
  local w, x, y, z = byte(record, 8, 11)
  return ((w * 256 + x) * 256 + y) * 256 + z
end

local function due(record)
  local u, v, w, x, y, z = byte(record, 12, 17)
  return ((((u * 256 + v) * 256 + w) * 256 + x) * 256 + y) * 256 + z
end

-- A history is when the task was set (6 bytes), its calls and failures before the present run (4 each),
-- and a byte 255: no error ends so, since it is UTF-8. Without a history, or with a zero for when, the
-- version says when: it is still that of the set. split returns the error and the history, perhaps empty.
local function split(record)
  local from, size = 23 + byte(record, 22), #record
  if size >= from + 14 and byte(record, size) == 255 then
    return sub(record, from, size - 15), sub(record, size - 14)
  end
  return sub(record, from), ''
end

-- history returns that of a task. It has a body if the version is about to change, and succeeded if the
-- task begins another run: so many of its present attempts have, and so many more don't count.
local function history(record, body, succeeded, uncounted)
  local created, calls, failures = 0, 0, 0
  if record then
    local _, past = split(record)
    if past ~= '' then created, calls, failures = struct.unpack('>I6I4I4', past) end
    if succeeded then
      local tries = math.max(attempts(record) - (uncounted or 0), 0)
      calls, failures = calls + tries, failures + tries - succeeded
    end
  end
  if created == 0 and body and #body > 7 then created = math.floor((struct.unpack('>I7', body) - 1) / 1000) end
  return pack('>I6I4I4I1', created, calls, failures, 255)
end

-- waits is the record of a task without attempts.
local function waits(at, past) return noLease .. pack('>I4I6I4I1', 0, at, 0, 0) .. past end

-- A task that was moved before its first lease has no record, so that nobody has to write one at each
-- move. Its body has a mark: kind 2 for 0, or a line feed for the space before the JSON of kind 1. Then m
-- has when the task was set, in 6 bytes, under the id after a byte 1. Without the mark that doesn't count.
-- Another key would cost each call more. Field marks of m says that there ever was one.
-- mark returns whether a body has the mark, and if not, the body with it. One of an earlier version may
-- have no place for it.
local function mark(body)
  local at, bare, sign = 8, 0, 2
  if byte(body, 8) == 1 then
    repeat at = at + 1 until (byte(body, at) or 0) < 128 -- the length of the JSON
    at, bare, sign = at + 1, 32, 10
  end
  local found = byte(body, at)
  if found == sign then return true end
  return false, found == bare and sub(body, 1, at - 1) .. string.char(sign) .. sub(body, at + 1)
end

-- moved returns a record for a task that has none, if its body has a mark.
local function moved(id, body, score)
  return body and mark(body) and waits(score, (call('HGET', m, '\1' .. id) or noTime) .. pack('>I4I4I1', 0, 0, 255))
end

-- unmark deletes what m has of tasks.
local function unmark(ids)
  if #ids == 0 or call('HEXISTS', m, 'marks') == 0 then return end
  local names = {}
  for i = 1, #ids do names[i] = '\1' .. ids[i] end
  call('HDEL', m, unpack(names))
end

-- The log of a task is in m, too, under its id after a byte 2, since another key would cost each call more: a byte with
-- the number of attempts, then each, the oldest first. An attempt is the size of the rest (2), when it ended (6),
-- version (7), attempt (4), state (1), when it began in microseconds (8), how long it took in nanoseconds (8), node
-- (1 byte of length before it), error. Field logs of m says that there ever was one.
-- unlog deletes logs of tasks. logs is that field.
local function unlog(logs, ids)
  if not logs or #ids == 0 then return end
  local names = {}
  for i = 1, #ids do names[i] = '\2' .. ids[i] end
  call('HDEL', m, unpack(names))
end

-- lasting is the length of a lease as it is kept: the highest number stands for any above.
local forever = 4294967295
local function lasting(lease) return math.min(tonumber(lease), forever) end

-- earlier tells the listeners if the first time of the partition will be an earlier one.
local function earlier(channel, message, at)
  if channel == '' then return end
  local head = call('ZRANGE', s, '0', '0', 'WITHSCORES')[2]
  if not head or at < tonumber(head) then
    call('PUBLISH', channel, message .. text(at))
  end
end

-- tellEnded tells the listeners of running tasks whose leases end, by a message of their topic, three empty lines and
-- the ids, or no id for many.
local function tellEnded(channel, message, ids)
  if channel == '' or #ids == 0 then return end
  local topic = string.match(message, '^[^\n]*')
  call('PUBLISH', channel, topic .. '\n\n\n\n' .. (#ids <= 64 and table.concat(ids, '\n') or ''))
end

-- asked returns an action time from what the client sends: a time, or for one relative to
-- now, less than zero.
local function asked(given, now)
  local at = tonumber(given)
  if at < 0 then at = math.min(now - at - 1, 253402300799999) end
  return at
end

-- timed returns an action time as text, and first, the earliest one so far or nothing. A relative time can
-- be earlier than first.
local function timed(given, now, first)
  if byte(given) ~= 45 then return given, first end
  local at = asked(given, now)
  return text(at), math.min(at, first or at)
end
