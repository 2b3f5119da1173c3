-- Calendar. ARGV: permits; four moments in milliseconds, with three successive calendar units between them. The key holds a
-- FixedWindow's text. The sections that are not here are FixedWindow's.

--@ read  out: ask@ count@ end@ free@ head@ length@ most@ renews@ text@
-- Sets ask@ if now is in none of the units.
local most@, begin@, end@, renews@ = tonumber(ARGV[@1]), tonumber(ARGV[@3]), tonumber(ARGV[@4]), true
--@window
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

--@ tell  in: count@ end@ text@  out: told@
local told@ = {text@, count@, end@ * 1000 - now, end@}
