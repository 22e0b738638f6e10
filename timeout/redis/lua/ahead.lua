-- ahead(state, limit, score, id): of a sealed slot, the ids that come after (score, id) in a set, with their scores.
local meta = call('HMGET', m, 'n', 'z')
if not meta[1] then return 'gone' end
if not meta[2] then return 'open' end
return {after(sets[tonumber(ARGV[1])], tonumber(ARGV[2]), ARGV[3], ARGV[4])}
