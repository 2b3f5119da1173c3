-- Calendar. ARGV: permits; the begin and the end of a calendar unit, Unix milliseconds. The key is
-- FixedWindow's. The other sections are FixedWindow's.
--@from fixedwindow

--@ length  out: length@
local length@ = ARGV[@3] - ARGV[@2]

--@ server  out: server@
local server@ = call('TIME')
server@ = server@[1] * 1000 + floor(server@[2] / 1000)

--@ unit  out: server@
-- The caller's clock may be in another unit than the clock of Redis.
--@include server
if server@ < ARGV[@2] + 0 or server@ >= ARGV[@3] + 0 then
  return {1, format('%d', server@ * 1000)}
end

--@ again  in: count@
if not count@ then
  --@include unit
end

--@ expire  in: count@ granted left@  out: left@
-- As FixedWindow's, up to the end of the unit by the clock of Redis. For another unit than that of the arguments,
-- the script is called again. But a call that took permits must not run twice: a later one sets the expiry.
--@include left
if left@ == -1 then
  --@include server
  if server@ >= ARGV[@2] + 0 and server@ < ARGV[@3] + 0 then
    left@ = ARGV[@3] - server@
    call('PEXPIRE', KEYS[@1], left@)
  elseif granted <= 0 then
    return {1, string.format('%d', server@ * 1000)}
  end
end

--@ begin  in: left@  out: left@
do
  local time = call('TIME')
  left@ = max(1, ARGV[@3] - time[1] * 1000 - floor(time[2] / 1000))
end

--@ report  in: count@ left@ text@  out: report@ server@
-- The end of the window follows: later units differ in length.
--@include left
local server@ = call('TIME')
local report@ = {text@, (count@ or 0) + 0, (left@ or 0) + 0, server@[1] * 1000 + floor(server@[2] / 1000) + (left@ or 0)}
