-- clock returns the server's time in microseconds, the same in one run. server returns the name of
-- the server's data; it changes with a failover, and with a restart.
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
