-- list(state, limit, score, id, room, brief): what comes after (score, id) in a set, or without a score the first
-- ones. Bodies have no more bytes than there is room, but for the first one. A lost body is empty. If brief is 1, the
-- answer has sizes in place of the payloads. Room counts all the same: the script reads whole bodies.
local refused = refusal(call('HMGET', m, 'n', 'z'))
if refused then return refused end

-- head returns how many bytes of a body stand before its payload.
local function head(body)
  local at, size, unit = 8, 0, 1
  if byte(body, 8) ~= 1 then return math.min(8, #body) end
  repeat
    at = at + 1
    local part = byte(body, at) or 0
    size, unit = size + part % 128 * unit, unit * 128
  until part < 128
  return at + size
end

-- above tells whether an id comes after the given one. Redis orders equal scores by the bytes of the members. Lua's own
-- comparison does as the server's locale says.
local set, score, last = sets[tonumber(ARGV[1])], ARGV[3], ARGV[4]
local function above(id)
  for i = 1, math.min(#id, #last) do
    local x, y = byte(id, i), byte(last, i)
    if x ~= y then return x > y end
  end
  return #id > #last
end

local first = 0
if score ~= '' then
  local stop = 0
  first, stop = call('ZCOUNT', set, '-inf', '(' .. score), call('ZCOUNT', set, '-inf', score)
  while first < stop do -- the first one after it of the same score
    local middle = math.floor((first + stop) / 2)
    if above(call('ZRANGE', set, middle, middle)[1]) then stop = middle else first = middle + 1 end
  end
end
local found = call('ZRANGE', set, first, first + ARGV[2] - 1, 'WITHSCORES')
local ids, scores, bodies, records, sizes = {}, {}, {}, {}, {}
local room = tonumber(ARGV[5])
for i = 1, #found, 2 do
  local id = found[i]
  local body = call('HGET', b, id) or ''
  room = room - #body
  if room < 0 and #ids > 0 then break end -- the rest is on another page
  if ARGV[6] == '1' then
    local size = head(body)
    sizes[#sizes + 1], body = #body - size, sub(body, 1, size)
  end
  ids[#ids + 1], scores[#scores + 1], bodies[#bodies + 1] = id, found[i + 1], body
  records[#records + 1] = call('HGET', a, id) or moved(id, body, found[i + 1])
end
return {ids, scores, bodies, records, #ids * 2 < #found and 1 or 0, sizes}
