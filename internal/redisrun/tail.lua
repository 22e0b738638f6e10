-- A script is run for several slots where they are on one server. For each there is the number
-- of its arguments, then these; an error of one is its answer, and no other's. Alone, a slot
-- has all arguments, and its answer is the script's.
local function choose(i)
  $keys = unpack(KEYS, i, i + width - 1)
  chosen()
end

if #KEYS == width then
  choose(1)
  return slot(ARGV)
end
local answers, from = {}, 1
for i = 1, #KEYS, width do
  choose(i)
  local stop = from + ARGV[from]
  local good, answer = pcall(slot, {unpack(ARGV, from + 1, stop)})
  if not good and type(answer) ~= 'table' then answer = {err = 'ERR ' .. tostring(answer)} end
  answers[#answers + 1] = answer
  from = stop + 1
end
return answers
