-- list(state, limit, score, id, room, brief): what comes after (score, id) in a set. Bodies have no more bytes than
-- there is room, but for the first one. A lost body is empty. If brief is 1, the answer has sizes in place of the
-- payloads. Room counts all the same: the script reads whole bodies.
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

local found = after(sets[tonumber(ARGV[1])], tonumber(ARGV[2]), ARGV[3], ARGV[4])
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
