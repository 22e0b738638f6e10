-- extend(lease, id, lease number ...)
local refused = refusal(call('HMGET', m, 'n', 'z'))
if refused then return refused end
local stop, ids, good = clock() + tonumber(ARGV[1]), {}, {}
for i = 1, (#ARGV - 1) / 2 do ids[i] = ARGV[2 * i] end
local records, running, update = call('HMGET', a, unpack(ids)), {}, {}
local size = pack('>I4', lasting(ARGV[1]))
for i = 1, #ids do
  local record = records[i]
  local own = record and sub(record, 1, 7) == ARGV[2 * i + 1]
  good[i] = own and '1' or '0'
  if own then
    running[#running + 1], running[#running + 2] = stop, ids[i]
    if sub(record, 18, 21) ~= size then
      update[#update + 1], update[#update + 2] = ids[i], sub(record, 1, 17) .. size .. sub(record, 22)
    end
  end
end
if #running > 0 then call('ZADD', p, unpack(running)) end
if #update > 0 then call('HSET', a, unpack(update)) end
return {table.concat(good)}
