-- TokenBucket. ARGV: capacity, refill, interval in microseconds. The key holds "<at, us> <taken> <part>": at that time so many
-- permits were missing to a full bucket, and part of an interval's refill of another one. "<at><taken>" with three digits of
-- taken stands for no part: Redis keeps a whole number in a third of the memory. Where reservations wait there is
-- " <last> <since>" behind it: what was missing when the newest of them was made and is at that time, in parts of an interval's
-- refill, and the time at which reservations began to wait.

--@ read
local capacity@, refill@, interval@ = ARGV[@1] + 0, ARGV[@2] + 0, ARGV[@3] + 0
-- What is missing, times interval: whole numbers, as long as they are below 2^53. From 2^63 on they cannot be told with %d.
local at@, missing@, last@, since@, text@ = now, 0, 0, 0, call('GET', KEYS[@]) or ''
if text@ ~= '' then
  local at, taken, part, rest = match(text@, '^(%d+) (%d+) (%d+)(.*)$')
  local last, since = match(rest or '', '^ (%d+) (%d+)$')
  if not at then
    at, taken = match(text@, '^([1-9]%d*)(%d%d%d)$')
    part, rest = '0', ''
  end
  if not at or rest ~= '' and not last or #at > 18 or #taken > 16 or #part > 16 or last and (#last > 33 or #since > 18) then
    return {3, @, text@}
  end
  -- Taken in decimal, whatever it begins with; and miniredis reads 2^63 and more with a point only.
  at@, missing@ = at + 0, tonumber(taken, 10) * interval@ + part
  if last then
    last@, since@ = tonumber(last .. '.'), tonumber(since)
  end
  if at@ < now then
    missing@, last@, at@ = max(0, missing@ - (now - at@) * refill@), last@ - (now - at@) * refill@, now
    if missing@ == 0 then
      last@ = 0
    end
  end
end
--@ahead
local part@ = fmod(missing@, interval@)
local taken@ = floor((missing@ - part@) / interval@ + 0.5)
local free@, most@ = capacity@ - taken@ - (part@ > 0 and 1 or 0), capacity@

--@ ahead
-- Reservations wait while more than this is missing of what was missing when they were made.
local ahead@ = capacity@ * interval@

--@ write
part@ = fmod(missing@, interval@)
taken@ = floor((missing@ - part@) / interval@ + 0.5)
if missing@ > 0 then
  if part@ == 0 and taken@ < 1000 and last@ <= ahead@ and at@ >= 1 then
    text@ = format('%d%03d', at@, taken@)
  else
    text@ = format('%d %d %d', at@, taken@, part@)
    if last@ > ahead@ then
      text@ = text@ .. format(' %.0f %d', last@, since@)
    end
  end
  call('SET', KEYS[@], text@, 'PX', format('%d', min(9007199254740, ceil((missing@ / refill@ + (at@ - now)) / 1000))))
else
  call('UNLINK', KEYS[@])
end

--@ take
missing@ = min(9007199254740992 * interval@, missing@ + granted * interval@) -- by Charge alone
--@write

--@ late
late = late or at@ > now

--@ release
-- Of a call at a time, less what has been refilled since, which would come back twice. Those who wait keep their moments.
missing@ = max(last@ > ahead@ and min(last@, missing@) or 0, missing@ - max(0, n * interval@ - (dated and max(0, at@ - dated) * refill@ or 0)))
--@write

--@ due
-- Until the bucket would hold n, after all that was taken before. Permits beyond 2^53 in all are not counted any more.
local due = missing@ + n * interval@ - ahead@
--@wait

--@ wait
delay = due > 0 and at@ - now + ceil(due / refill@) or 0
if missing@ / interval@ + n > 9007199254740992 then
  delay = 9007199254740992
end

--@ book
-- The ticket is when nothing would be missing any more: microseconds, and so many parts of an interval's refill less; and of one
-- that waits, since when reservations do.
missing@ = missing@ + n * interval@
local waits = 0
if missing@ > ahead@ then
  if last@ <= ahead@ then
    since@ = at@
  end
  last@, waits = missing@, since@
end
local full = ceil(missing@ / refill@)
ticket = format('%.0f %.0f %d', at@ + full, max(0, full * refill@ - missing@), waits)

--@ undo
-- Own is what was missing when it was made, of what is missing still; later is what was reserved behind it.
local permits, full, less, waits = match(text, '^(%d+) (%d+) (%d+) (%d+)$')
local own = (full - at@) * refill@ - less
local later, n = 0, permits * interval@
if last@ <= ahead@ and own > ahead@ or last@ > ahead@ and waits ~= '0' and tonumber(waits) ~= since@ then
  -- Nobody waits any more, or only who began later, and not even this one: somebody has reset the limiter since.
  later = n
elseif last@ > ahead@ then
  later = max(0, last@ - own)
end
local back = min(n - later, own)
if back > 0 then
  missing@, changed = max(0, missing@ - back), true
  if last@ == own then
    last@ = own - n
  end
end

--@ tell
local told@ = {text@, taken@, part@, at@ - now}
