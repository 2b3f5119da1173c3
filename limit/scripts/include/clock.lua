-- Reads the time. script.go takes it into scripts of policies that use now or millis.
-- + 0 converts a text in half of tonumber's time.
-- Sets: millis now.
local now = ARGV[@time]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
now = max(0, now)
local millis = floor(now / 1000)
