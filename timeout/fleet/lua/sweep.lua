-- sweep(max, lease, gap, share, least, delivery, longest, id, token, attempts, after ...):
-- settles what was told, then ends what has outlived its lease and leases what is to be told, for
-- delivery ms. after is empty for what is done, or in how many ms it is to be told again. longest
-- is what no lease can exceed.
local us, max, lease = clock(), tonumber(ARGV[1]), tonumber(ARGV[2])
local now = math.floor(us / 1000)
local present = text(now)

if #ARGV > 7 then
  local ids = {}
  for i = 8, #ARGV, 4 do ids[i / 4 - 1] = ARGV[i] end
  local events, owners = call('HMGET', y, unpack(ids)), call('HMGET', e, unpack(ids))
  local done = {}
  for i = 1, #ids do
    local id, token, attempts, after = unpack(ARGV, 4 * i + 4, 4 * i + 7)
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
if max == 0 then return {now, 0, '', 0, {}, {}} end

local meta = call('HMGET', m, 'n', 'last', 'hold', 'pass', 'w', 'c')
if not meta[1] then return {now, 0, '', 0, {}, {}} end
local _, other = begin(us, lease)
local last, held, pass = tonumber(meta[2]), tonumber(meta[3] or 0), tonumber(meta[4] or 0)
local why = ''
-- Nobody could renew while nobody could sweep. A lease that was given before the clock was set
-- forward seems to be over; before it was set back, it seems to last for longer than it can.
if now - last > tonumber(ARGV[3]) then why = 'gap'
elseif last - now > 1000 then why = 'clock'
elseif other then why = 'server' end
if why ~= '' then
  hold(now, lease)
  held, pass = now + lease, now + 2 * lease
elseif held > now + lease then
  hold(now, lease)
  held, pass = now + lease, now + 2 * lease
end
-- That is written now and then only: it is copied to replicas and files.
if now - last > tonumber(ARGV[3]) / 8 or last - now > 1000 then call('HSET', m, 'last', present) end

local function shorten(key, limit)
  local far = call('ZRANGE', key, '(' .. text(now + limit), '+inf', 'BYSCORE', 'LIMIT', '0', '256')
  if #far > 0 then
    local times = {}
    for i = 1, #far do times[2 * i - 1], times[2 * i] = text(now + limit), far[i] end
    call('ZADD', key, 'XX', unpack(times))
  end
end
shorten(l, tonumber(ARGV[7]))
shorten(x, tonumber(ARGV[7]))

local due = call('ZCOUNT', l, '-inf', present)
if due > 0 and held <= now then
  local window, expired = tonumber(meta[5] or 0), tonumber(meta[6] or 0)
  if now - window > lease or window > now then window, expired = now, 0 end
  local share, all = tonumber(ARGV[4]), call('ZCARD', l) + expired
  if share > 0 and due + expired > share * all and due >= tonumber(ARGV[5]) and pass <= now then
    why, held = 'share', now + lease
    hold(now, lease)
  else
    local over = call('ZRANGE', l, '-inf', present, 'BYSCORE', 'LIMIT', '0', ARGV[1], 'WITHSCORES')
    local ids, ended = {}, {}
    for i = 1, #over, 2 do ids[(i + 1) / 2] = over[i] end
    local owners, records = call('HMGET', e, unpack(ids)), call('HMGET', o, unpack(ids))
    for i = 1, #ids do
      local value, record = owners[i], records[i]
      local state, seen = sub(value, 13), tonumber(over[2 * i]) - leaseOf(record)
      ended[i] = {ids[i], sub(value, 1, 12), state == '' and 'e' or state, seen, record}
    end
    finish(ended, now)
    call('HSET', m, 'w', text(window), 'c', text(expired + #ids))
  end
end

local ids = call('ZRANGE', x, '-inf', present, 'BYSCORE', 'LIMIT', '0', ARGV[1])
local events = {}
if #ids > 0 then
  events = call('HMGET', y, unpack(ids))
  local again, times, stop = {}, {}, text(now + tonumber(ARGV[6]))
  for i = 1, #ids do
    local attempts = math.min(struct.unpack('>I2', sub(events[i], 13, 14)) + 1, 65535)
    events[i] = sub(events[i], 1, 12) .. pack('>I2', attempts) .. sub(events[i], 15)
    again[2 * i - 1], again[2 * i] = ids[i], events[i]
    times[2 * i - 1], times[2 * i] = stop, ids[i]
  end
  call('HSET', y, unpack(again))
  call('ZADD', x, unpack(times))
end
return {now, held > now and held or 0, why, due, ids, events}
