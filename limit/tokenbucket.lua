-- TokenBucket. ARGV: capacity, refill, interval in microseconds. The key holds "<epoch> <at, us>
-- <taken> <part>". At that time taken permits and part of another one were missing from a full
-- bucket. A permit has as many parts as the interval has microseconds. All other amounts are in
-- parts. " <low> <since, us> <back>" follows for refunds, unless the values are those of a first
-- take. No grant since that time found less missing than low, and refunds have returned back in
-- this epoch. While reservations wait, " <last>" follows: the amount that was missing when the
-- newest of them was made, and still is.
--
-- TTL: until the bucket is full.

--@ read  out: ahead@ at@ back@ capacity@ epoch@ free@ interval@ last@ low@ missing@ most@ part@ refill@ since@
--+ taken@ text@
local capacity@, refill@, interval@ = ARGV[@1] + 0, ARGV[@2] + 0, ARGV[@3] + 0
-- missing is a whole number while it is below 2^53. format accepts numbers below 2^63 for %d.
local at@, missing@, epoch@, text@ = now, 0, false, call('GET', KEYS[@]) or ''
local low@, since@, back@, last@ = 0, now, 0, 0
if text@ ~= '' then
  local word, at, taken, part, rest = match(text@, '^(%w+) (%d+) (%d+) (%d+)(.*)$')
  local low, since, back, last = match(rest or '', '^ (%d+) (%d+) (%d+) ?(%d*)$')
  if not word or #at > 18 or #taken > 16 or #part > 16 or rest ~= '' and (not low or #low > 33 or #since > 18 or #back > 99 or #last > 33) then
    return {3, @, text@}
  end
  -- The base 10 is for leading zeros. miniredis reads numbers from 2^63 on only with a point.
  at@, missing@ = at + 0, tonumber(taken, 10) * interval@ + part
  low@, since@ = missing@, at@
  if low then
    low@, since@, back@, last@ = tonumber(low .. '.'), since + 0, tonumber(back .. '.'), tonumber('0' .. last .. '.')
  end
  if at@ < now then
    missing@, last@, at@ = max(0, missing@ - (now - at@) * refill@), last@ - (now - at@) * refill@, now
  end
  epoch@ = missing@ > 0 and word
end
--@ahead
local part@ = fmod(missing@, interval@)
local taken@ = floor((missing@ - part@) / interval@ + 0.5)
local free@, most@ = capacity@ - taken@ - (part@ > 0 and 1 or 0), capacity@

--@ ahead  in: capacity@ interval@  out: ahead@
-- A reservation waits while more than this is missing of the amount that was missing when it was
-- made.
local ahead@ = capacity@ * interval@

--@ add  in: at@ back@ epoch epoch@ interval@ last@ low@ missing@ n since@  out: back@ epoch@ last@ low@ missing@
--+ since@
-- Takes n more. If the bucket was much fuller than low, low starts again, and refunds of grants
-- before that do not use it.
if not epoch@ then
  epoch@, low@, back@, last@ = epoch, 0, 0, 0
end
local found = missing@
missing@ = min(9007199254740992 * interval@, missing@ + n * interval@) -- only Charge reaches this
if found == 0 or found < low@ / 2 then
  low@, since@ = missing@, at@
else
  low@ = min(low@, found)
end

--@ subtract  in: back@ due low@ missing@  out: back@ low@ missing@
missing@, low@, back@ = missing@ - due, max(0, low@ - due), back@ + due

--@ write  in: ahead@ at@ back@ epoch@ interval@ last@ low@ missing@ part@ refill@ since@ taken@ text@  out: part@
--+ taken@ text@
part@ = fmod(missing@, interval@)
taken@ = floor((missing@ - part@) / interval@ + 0.5)
if missing@ > 0 then
  text@ = format('%s %d %d %d', epoch@, at@, taken@, part@)
  if low@ ~= missing@ or since@ ~= at@ or back@ > 0 or last@ > ahead@ then
    text@ = text@ .. format(' %.0f %d %.0f', low@, since@, back@)
    if last@ > ahead@ then
      text@ = text@ .. format(' %.0f', last@)
    end
  end
  call('SET', KEYS[@], text@, 'PX', format('%d', min(9007199254740, ceil((missing@ / refill@ + (at@ - now)) / 1000))))
else
  text@ = ''
  call('UNLINK', KEYS[@])
end

--@ take  in: ahead@ at@ back@ epoch epoch@ granted interval@ last@ low@ missing@ part@ refill@ since@ taken@ text@
--+ out: back@ epoch@ last@ low@ missing@ n part@ since@ taken@ text@
local n = granted
--@add
--@write

--@ release  in: ahead@ at@ back@ epoch@ interval@ last@ low@ mark missing@ n part@ refill@ since@ taken@ text@
--+ out: back@ due low@ missing@ part@ taken@ text@
-- Returns permits at once. With a mark, returns the amount that is missing because of the grant: at
-- most the least amount that was missing since. Each of these is at most that:
--   - the grant less all refill since.
--   - the amount that was missing after the grant, less all refill and all refunds since.
--   - low, if the grant is not older than since.
-- Reservations that wait keep their times.
local due = n * interval@
if mark then
  local word, at, taken, part, rest = match(mark, '^(%w+) (%d+) (%d+) (%d+)(.*)$')
  if word and word == epoch@ then
    local refilled, before = (at@ - at) * refill@, tonumber((match(rest, '^ %d+ %d+ (%d+)') or '0') .. '.')
    due = min(due, max(due - refilled, tonumber(taken, 10) * interval@ + part - refilled - back@ + before, since@ <= at + 0 and low@ or 0))
  else
    due = 0
  end
end
due = min(due, missing@ - (last@ > ahead@ and min(last@, missing@) or 0))
if due > 0 then
  --@subtract
  --@write
end

--@ due  in: ahead@ at@ delay interval@ missing@ n refill@  out: delay due
-- Until the bucket would hold n, after all permits that were taken before. Permits above a total of
-- 2^53 are not counted.
local due = missing@ + n * interval@ - ahead@
--@wait

--@ wait  in: at@ delay due interval@ missing@ n refill@  out: delay
delay = due > 0 and at@ - now + ceil(due / refill@) or 0
if missing@ / interval@ + n > 9007199254740992 then
  delay = 9007199254740992
end

--@ book  in: ahead@ at@ back@ epoch epoch@ interval@ last@ low@ missing@ n since@ ticket  out: back@ epoch@ last@
--+ low@ missing@ since@ ticket
-- The ticket is "<epoch> <at, us> <missing> <back>", as the reservation left them.
--@add
if missing@ > ahead@ then
  last@ = missing@
end
ticket = format('%s %d %.0f %.0f', epoch@, at@, missing@, back@)

--@ undo  in: ahead@ at@ back@ changed epoch@ interval@ last@ low@ missing@ refill@ since@ text  out: back@ changed
--+ last@ low@ missing@
-- own is the amount that was missing when the reservation was made and still is. later is the
-- amount that was reserved after it.
local permits, word, at, missing, back = match(text, '^(%d+) (%w+) (%d+) (%d+) (%d+)$')
if word and word == epoch@ then
  local n, refilled = permits * interval@, (at@ - at) * refill@
  local own = tonumber(missing .. '.') - refilled
  local due = own
  if own <= ahead@ then -- it does not wait: as a refund of a grant
    due = max(n - refilled, own - back@ + tonumber(back .. '.'), since@ <= at + 0 and low@ or 0)
  end
  due = min(due, n - max(0, last@ > ahead@ and last@ - own or 0), missing@)
  if due > 0 then
    if last@ == own then
      last@ = own - n
    end
    changed = true
    --@subtract
  end
end

--@ tell  in: at@ part@ taken@ text@  out: told@
local told@ = {text@, taken@, part@, at@ - now}
