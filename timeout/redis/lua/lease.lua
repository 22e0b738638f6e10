-- lease(node, lease, max, count, late, by, then for each outcome: id, lease, as, after, error;
-- and with a log most, retain, and for each outcome told):
-- settles leases, then leases tasks whose leases have expired and those that are due. as is "d" done,
-- "x" dead, "p" pending, "y" and "r" the same and the attempt not counted, "a" pending as if just set, "f" the
-- same with an error, "g" the same and the attempt not counted.
-- most is how many attempts a log keeps, in about 16 KiB, of those that ended less than retain ago. told is the state,
-- begin and length of an attempt, as a log has them, or empty if the log leaves it out.
-- node is a record's, with its length. After the time by nobody waits for the answer, and nothing is leased. 0 is none.
-- Somebody else may have deleted a part of a task. A lease without a record ends as any other, and its task begins
-- a new run. A due task without a body is lost: the script forgets it and returns its id.
local meta = call('HMGET', m, 'n', 'z', 'retain', 'paused', 'big', 'rev', 'until', 'logs')
local refused = refusal(meta)
if refused then return refused end
local now, node, lease, max = clock(), ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local present, latest = text(now), text(now - ARGV[5])
local count, by = tonumber(ARGV[4]), tonumber(ARGV[6])
local extra = 6 + 5 * count
local most, logs = tonumber(ARGV[extra + 1]), {}
local settled = {}
if by > 0 and now > by then max = 0 end

-- remember adds an attempt to the log of a task with a body.
local function remember(id, record, body, told, failure)
  body = body or call('HGET', b, id)
  if not body then return end
  local node = sub(record, 22, 22 + byte(record, 22))
  local entry = pack('>I6', now) .. sub(body, 1, 7) .. sub(record, 8, 11) .. told .. node .. failure
  local log, first = call('HGET', m, '\2' .. id) or '', 2
  local kept = byte(log) or 0
  while kept > 0 do
    local size, ended = #log, now
    if #log >= first + 7 then size, ended = struct.unpack('>I2I6', log, first) end
    if first + 1 + size > #log then -- somebody else has cut it
      log, kept, first = '', 0, 2
      break
    end
    if kept < most and #log - first + #entry < 16384 and ended > now - ARGV[extra + 2] then break end
    kept, first = kept - 1, first + 2 + size
  end
  logs[#logs + 1] = '\2' .. id
  logs[#logs + 1] = string.char(kept + 1) .. sub(log, first) .. pack('>I2', #entry) .. entry
end

if count > 0 then
  local ids = {}
  for i = 1, count do ids[i] = ARGV[5 * i + 2] end
  local records = call('HMGET', a, unpack(ids))
  local seen, left, forget = {}, {}, {}
  local again, finished, dead, update = {}, {}, {}, {}
  for i = 1, count do
    local base, id, record = 5 * i + 1, ids[i], records[i]
    local own = record and not seen[id] and sub(record, 1, 7) == ARGV[base + 2]
    settled[i] = own and '1' or '0'
    if own then
      seen[id] = true
      left[#left + 1] = id
      local as, failure = ARGV[base + 3], ARGV[base + 5]
      if most and ARGV[extra + 2 + i] ~= '' and (meta[3] ~= '0' or as ~= 'd' and as ~= 'a') then
        remember(id, record, nil, ARGV[extra + 2 + i], failure)
      end
      if as == 'd' and meta[3] == '0' then
        forget[#forget + 1] = id
      elseif as == 'a' or as == 'f' or as == 'g' then
        local at = asked(ARGV[base + 4], now)
        local past = as == 'a' and history(record, nil, 1) or failure .. history(record, nil, 0, as == 'g' and 1 or 0)
        update[#update + 1], update[#update + 2] = id, waits(at, past)
        again[#again + 1], again[#again + 2] = at, id
      else
        local tries, stop = attempts(record), 22 + byte(record, 22)
        local last, past = split(record)
        if as == 'r' or as == 'y' then tries = math.max(tries - 1, 0) end
        if as == 'd' or as == 'r' then failure = last end
        update[#update + 1] = id
        update[#update + 1] = noLease .. pack('>I4', tries) .. sub(record, 12, stop) .. failure .. past
        local to, at = again, present
        if as == 'd' then to = finished elseif as == 'x' or as == 'y' then to = dead
        else at = asked(ARGV[base + 4], now) end
        to[#to + 1], to[#to + 2] = at, id
      end
    end
  end
  if #left > 0 then call('ZREM', p, unpack(left)) end
  if #forget > 0 then
    call('HDEL', b, unpack(forget))
    call('HDEL', a, unpack(forget))
    unlog(meta[8], forget)
  end
  if #update > 0 then call('HSET', a, unpack(update)) end
  if #again > 0 then call('ZADD', s, unpack(again)) end
  if #finished > 0 then call('ZADD', f, unpack(finished)) end
  if #dead > 0 then call('ZADD', d, unpack(dead)) end
end

-- expired returns the error of an attempt after the end of its lease, and the history. The log gets it, if anybody knows
-- the attempt.
local function expired(id, record, body)
  local _, past = split(record)
  if attempts(record) == 0 then return 'timeout: the record of its attempts is lost' .. past end
  local failure = 'timeout: the lease of ' .. sub(record, 23, 22 + byte(record, 22)) .. ' ended in attempt ' .. text(attempts(record))
  if most then remember(id, record, body, pack('>I1I8I8', 1, 0, 0), failure) end
  return failure .. past
end

local paused, ends = meta[4] == '1', meta[7] and tonumber(string.match(meta[7], '^' .. meta[6] .. ' (%d+)$'))
if ends and ends <= now then paused = false end
local ids, bodies, records, number, late, lost = {}, {}, {}, 0, 0, {}
if max > 0 and not paused then
  -- A lease with more before it than it is long was given before the clock was stepped back.
  local last = call('ZRANGE', p, '0', '0', 'REV', 'WITHSCORES')
  if last[2] and tonumber(last[2]) > now + lease then
    local far = call('ZRANGE', p, '(' .. text(now + lease), '+inf', 'BYSCORE', 'LIMIT', '0', 64, 'WITHSCORES')
    for i = 1, #far, 2 do
      local record = call('HGET', a, far[i])
      local own = record and struct.unpack('>I4', record, 18) or lease -- the length of its lease
      if own < forever and tonumber(far[i + 1]) > now + own then call('ZADD', p, now + own, far[i]) end
    end
  end

  local over = call('ZRANGE', p, '-inf', latest, 'BYSCORE', 'LIMIT', '0', most and math.min(max, 64) or ARGV[3])
  local scores = {}
  if #over > 0 then
    local found = call('HMGET', a, unpack(over))
    for i = 1, #over do
      local record = found[i] or waits(now, '')
      if not found[i] and call('ZSCORE', s, over[i]) then
        call('ZREM', p, over[i]) -- to move.lua it was a waiting task
      else
        late = late + 1
        ids[late], records[late], scores[late] = over[i], record, ''
      end
    end
  end

  local fresh = call('ZRANGE', s, '-inf', latest, 'BYSCORE', 'LIMIT', '0', max - late, 'WITHSCORES')
  local total = late
  for i = 1, #fresh, 2 do
    total = total + 1
    ids[total], scores[total] = fresh[i], fresh[i + 1]
  end
  if meta[5] then -- large bodies: not more than a MiB of them
    local room = 1048576
    for i = 1, total do
      room = room - call('HSTRLEN', b, ids[i])
      if room < 0 and i > 1 then
        for j = i, total do ids[j], scores[j], records[j] = nil, nil, nil end
        late, total = math.min(late, i - 1), i - 1
        break
      end
    end
  end
  if total > 0 then
    bodies = call('HMGET', b, unpack(ids))
    if total > late then
      -- Without an earlier attempt a task has no record. Often no pending task has one.
      local others = call('ZCARD', p) + call('ZCARD', f) + call('ZCARD', d) + call('ZCARD', r)
      local found = call('HLEN', a) > others and call('HMGET', a, unpack(ids, late + 1, total))
      local marks = {}
      for i = late + 1, total do
        records[i] = found and found[i - late]
        if not records[i] and bodies[i] and byte(bodies[i], 8) ~= 0 then
          records[i] = moved(ids[i], bodies[i], scores[i])
          if records[i] then marks[#marks + 1] = ids[i] end
        end
      end
      unmark(marks)
      call('ZREMRANGEBYRANK', s, '0', total - late - 1)
    end
    for i = total, 1, -1 do
      if not bodies[i] then
        lost[#lost + 1] = ids[i]
        for _, of in ipairs({ids, scores, bodies, records}) do table.remove(of, i) end
        total = total - 1
        if i <= late then late = late - 1 end
      end
    end
    if #lost > 0 then
      call('ZREM', p, unpack(lost))
      call('HDEL', a, unpack(lost))
      unlog(meta[8], lost)
      unmark(lost)
    end
  end
  if total > 0 then
    number = numbers(meta[1], total)
    local running, update, tail = {}, {}, pack('>I4', lasting(lease)) .. node
    local stop = text(now + lease)
    for i = 1, total do
      local record, id = records[i], ids[i]
      running[2 * i - 1], running[2 * i] = stop, id
      update[2 * i - 1] = id
      if i <= late then
        update[2 * i] = pack('>I7I4', number + i, attempts(record) + 1) .. sub(record, 12, 17) .. tail .. expired(id, record, bodies[i])
      elseif record then
        update[2 * i] = pack('>I7I4', number + i, attempts(record) + 1) .. sub(record, 12, 17) .. tail .. sub(record, 23 + byte(record, 22))
      else
        update[2 * i] = pack('>I7I4I6', number + i, 1, scores[i]) .. tail
      end
    end
    call('ZADD', p, unpack(running))
    call('HSET', a, unpack(update))
  end
  bodies = {ids, scores, bodies, records}
end

-- Logs must not fill a server: they grow only while at most three quarters of its memory are in use.
if #logs > 0 then
  local info = call('INFO', 'memory')
  local most = tonumber(string.match(info, '\nmaxmemory:(%d+)'))
  if most == 0 or tonumber(string.match(info, '\nused_memory:(%d+)')) <= most / 4 * 3 then
    call('HSET', m, 'logs', 1, unpack(logs))
  end
end

-- What is due next, and how much is due already.
local after, backlog = paused and ends or 0, 0
if not paused then
  local first, ends = call('ZRANGE', s, '0', '0', 'WITHSCORES')[2], call('ZRANGE', p, '0', '0', 'WITHSCORES')[2]
  after = tonumber(first or ends or 0)
  if ends and tonumber(ends) < after then after = tonumber(ends) end
  if after > 0 and after <= now then
    backlog = call('ZCOUNT', s, '-inf', present) + call('ZCOUNT', p, '-inf', present)
  elseif after <= 0 and (first or ends) then
    after, backlog = 1, 1
  end
end
return {now, after, backlog, table.concat(settled), number, late, bodies, lost}
