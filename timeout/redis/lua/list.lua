-- list(state, limit, score, id, room): what comes after (score, id) in a set. Bodies have no more bytes than
-- there is room, but for the first one. A lost body is empty.
local refused = refusal(call('HMGET', m, 'n', 'z'))
if refused then return refused end
local found = after(sets[tonumber(ARGV[1])], tonumber(ARGV[2]), ARGV[3], ARGV[4])
local ids, scores, bodies, records = {}, {}, {}, {}
local room = tonumber(ARGV[5])
for i = 1, #found, 2 do
  local id = found[i]
  local body = call('HGET', b, id) or ''
  room = room - #body
  if room < 0 and #ids > 0 then break end -- the rest is on another page
  ids[#ids + 1], scores[#scores + 1], bodies[#bodies + 1] = id, found[i + 1], body
  records[#records + 1] = call('HGET', a, id) or moved(id, body, found[i + 1])
end
return {ids, scores, bodies, records, #ids * 2 < #found and 1 or 0}
