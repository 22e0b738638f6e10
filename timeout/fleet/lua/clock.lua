-- clock is the server's, in microseconds, and server names its data: another one after a
-- failover, and after a restart.
local moment, name
local function clock()
  if not moment then
    local time = call('TIME')
    moment = time[1] * 1000000 + time[2]
  end
  return moment
end

local function server()
  if not name then
    local good, info = pcall(call, 'INFO', 'replication')
    name = good and string.match(info, 'master_replid:(%x+)') or ''
  end
  return name
end
