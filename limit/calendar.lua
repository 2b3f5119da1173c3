-- Calendar. ARGV: permits; four moments, milliseconds, between which three calendar units lie that follow each other. The key
-- holds "<begin, ms> <end, ms> <count>".

--@ read
-- Sets ask@ where now is in none of the units.
local most@, begin@, end@, count@, ask@ = tonumber(ARGV[@1]), tonumber(ARGV[@3]), tonumber(ARGV[@4]), 0, false
local text@ = call('GET', KEYS[@]) or ''
if text@ ~= '' then
  local begin, finish, count = match(text@, '^(%-?%d+) (%d+) (%d+)$')
  if not begin or #begin > 16 or #count > 16 or #finish > 16 or tonumber(finish) > 9007199254740992 then
    return {3, @, text@}
  end
  -- It has not begun for a clock that has gone back.
  if tonumber(finish) > millis then
    begin@, end@, count@ = tonumber(begin), tonumber(finish), tonumber(count)
  end
end
if count@ == 0 then
  if millis >= end@ then
    begin@, end@ = end@, tonumber(ARGV[@5])
  elseif millis < begin@ then
    begin@, end@ = tonumber(ARGV[@2]), begin@
  end
  ask@ = millis < begin@ or millis >= end@
end
local free@ = most@ - count@

--@ again
if ask@ then
  return {1, format('%d', now)}
end

--@ lease
-- What is leased is used in the unit that counts it.
span = min(span, floor(end@ - now / 1000))

--@ take
count@ = min(9007199254740992, count@ + granted) -- by Charge alone
text@ = format('%d %d %.0f', begin@, end@, count@)
call('SET', KEYS[@], text@, 'PX', end@ - millis)

--@ late
late = late or begin@ > millis

--@ release
if count@ > 0 and (not dated or floor(dated / 1000) >= begin@ and floor(dated / 1000) < end@) then
  if n < count@ then
    call('SET', KEYS[@], format('%d %d %.0f', begin@, end@, count@ - n), 'KEEPTTL')
  else
    call('UNLINK', KEYS[@])
  end
end

--@ tell
local told@ = {text@, min(count@, 9007199254740992), end@ * 1000 - now, end@}
