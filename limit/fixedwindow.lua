-- FixedWindow. ARGV: permits; interval in milliseconds, below 0 where it is aligned. The key holds "<begin, ms><count>" with
-- three digits of count: Redis keeps a whole number in a third of the memory, and counts it up in half the time. Where they
-- do not suffice it is "<begin, ms> <count>".

--@ read
local permits@, interval@ = ARGV[@1] + 0, ARGV[@2] + 0
local begin@, count@, counts@, text@ = millis, 0, false, call('GET', KEYS[@]) or ''
if interval@ < 0 then
  interval@ = -interval@
  begin@ = millis - millis % interval@
end
if text@ ~= '' then
  local begin, count, whole = nil, nil, #text@ <= 16 and match(text@, '^[1-9]%d%d%d+$')
  if whole then
    whole = whole + 0
    count = whole % 1000
    begin = (whole - count) / 1000
  else
    begin, count = match(text@, '^(%d+) (%d+)$')
    if not begin or #begin > 15 or #count > 16 then
      return {3, @, text@}
    end
    begin, count = begin + 0, count + 0
  end
  -- Begin is later than now for a clock that has gone back.
  if begin + interval@ > millis then
    begin@, count@, counts@ = begin, count, whole and count > 0
  end
end
local free@, most@ = permits@ - count@, permits@

--@ lease
-- What is leased is used in the window that counts it.
span = min(span, floor(interval@ / 16), floor(begin@ + interval@ - now / 1000))

--@ take
count@ = min(9007199254740992, count@ + granted) -- by Charge alone
if count@ > 999 or begin@ < 1 or begin@ > 9999999999999 then
  text@, counts@ = format('%d %.0f', begin@, count@), false
  call('SET', KEYS[@], text@, 'PX', format('%d', begin@ + interval@ - millis))
elseif counts@ then
  text@ = call('INCRBY', KEYS[@], spent or granted)
else
  text@ = format('%d%03d', begin@, count@)
  call('SET', KEYS[@], text@, 'PX', format('%d', begin@ + interval@ - millis))
end

--@ late
-- Who foretells an aligned window counts on its beginning.
late = late or begin@ > millis or letters == 'r' and begin@ % interval@ > 0

--@ release
if count@ > 0 and (not dated or floor(dated / 1000) >= begin@) then
  if n >= count@ then
    call('UNLINK', KEYS[@])
  elseif counts@ then
    call('DECRBY', KEYS[@], n)
  else
    call('SET', KEYS[@], format('%d %.0f', begin@, count@ - n), 'KEEPTTL')
  end
end

--@ tell
local told@ = {text@, min(count@, 9007199254740992), (begin@ + interval@) * 1000 - now}
