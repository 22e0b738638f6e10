-- after returns what comes after (score, id) in a set, at most limit ids with their scores. An empty score is the
-- beginning.
local function after(set, limit, score, id)
  -- Redis orders equal scores by the bytes of the members. Lua's own comparison does as the
  -- server's locale says.
  local function above(other)
    for i = 1, math.min(#other, #id) do
      local x, y = byte(other, i), byte(id, i)
      if x ~= y then return x > y end
    end
    return #other > #id
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
  return call('ZRANGE', set, first, first + limit - 1, 'WITHSCORES')
end
