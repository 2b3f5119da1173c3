-- Calendar. ARGV: permits; the beginning and the end of a calendar unit, Unix milliseconds. The key is
-- FixedWindow's. The other sections are FixedWindow's.
--@from fixedwindow

--@ length  out: length@
local length@ = ARGV[@3] - ARGV[@2]

--@ server  out: server@
local server@ = call('TIME')
server@ = server@[1] * 1000 + floor(server@[2] / 1000)

--@ inside  out: inside@ server@
-- Whether the clock of Redis is in the unit of the arguments: the caller's clock may be in another one.
--@include server
local inside@ = server@ >= ARGV[@2] + 0 and server@ < ARGV[@3] + 0

--@ unit  out: inside@ server@
--@include inside
if not inside@ then
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
  --@include inside
  if inside@ then
    left@ = ARGV[@3] - server@
    call('PEXPIRE', KEYS[@1], left@)
  elseif granted <= 0 then
    return {1, format('%d', server@ * 1000)}
  end
end

--@ begin  in: left@  out: left@
do
  --@include server
  left@ = max(1, ARGV[@3] - server@)
end

--@ report  in: count@ left@ text@  out: report@ server@
-- The end of the window follows: later units differ in length.
--@include left
--@include server
local report@ = {text@, (count@ or 0) + 0, (left@ or 0) + 0, server@ + (left@ or 0)}
