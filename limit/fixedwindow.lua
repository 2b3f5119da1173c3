-- FixedWindow. ARGV: permits, interval in milliseconds, 1 where it is aligned. The key holds "<begin, ms> <count>".

--@ read
local permits@, interval@ = tonumber(ARGV[@1]), tonumber(ARGV[@2])
local begin@, count@, text@ = millis, 0, call('GET', KEYS[@]) or ''
if ARGV[@3] == '1' then
  begin@ = millis - millis % interval@
end
if text@ ~= '' then
  local begin, count = match(text@, '^(%d+) (%d+)$')
  if not begin or #begin > 15 or #count > 16 then
    return {3, @, text@}
  end
  begin = tonumber(begin)
  -- Begin is later than now for a clock that has gone back.
  if begin + interval@ > millis then
    begin@, count@ = begin, tonumber(count)
  end
end
local free@, most@ = permits@ - count@, permits@

--@ take
count@ = min(9007199254740992, count@ + granted) -- by Charge alone
text@ = format('%d %.0f', begin@, count@)
call('SET', KEYS[@], text@, 'PX', begin@ + interval@ - millis)

--@ release
if count@ > 0 and (not dated or floor(dated / 1000) >= begin@) then
  if n < count@ then
    call('SET', KEYS[@], format('%d %.0f', begin@, count@ - n), 'KEEPTTL')
  else
    call('UNLINK', KEYS[@])
  end
end

--@ tell
local told@ = {text@, min(count@, 9007199254740992), (begin@ + interval@) * 1000 - now}
