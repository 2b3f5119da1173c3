-- Calendar. ARGV: permits; four times in milliseconds, which bound three successive calendar units.
-- The text of the key is FixedWindow's. The other sections are FixedWindow's.
--@from fixedwindow

--@ read  out: ask@ count@ end@ free@ head@ length@ most@ renews@ text@
-- Sets ask@ if none of the units contains now.
local most@, begin@, end@, renews@ = tonumber(ARGV[@1]), tonumber(ARGV[@3]), tonumber(ARGV[@4]), true
--@include openwindow
if not head@ and millis >= end@ then
  begin@, end@ = end@, tonumber(ARGV[@5])
elseif not head@ and millis < begin@ then
  begin@, end@ = tonumber(ARGV[@2]), begin@
end
local ask@, length@ = not head@ and (millis < begin@ or millis >= end@), ARGV[@4] - ARGV[@3]
local free@ = most@ - count@

--@ again  in: ask@
if ask@ then
  return {1, format('%d', now)}
end

--@ lease  in: end@ span  out: span
-- Leased permits are used in the unit that counts them.
span = min(span, floor(end@ - now / 1000))

--@ report  in: count@ end@ text@  out: report@
local report@ = {text@, count@, end@ * 1000 - now, end@}
