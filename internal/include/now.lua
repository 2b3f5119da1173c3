-- Reads the time, in Unix milliseconds as a text.
-- Sets: now.
local now = ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] .. string.format('%03d', math.floor(time[2] / 1000))
end
