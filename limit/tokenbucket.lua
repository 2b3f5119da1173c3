-- TokenBucket. ARGV: capacity, refill, interval in microseconds. The key holds "<epoch> <at, us> <taken> <part>": at that time so many
-- permits were missing to a full bucket, and part of an interval's refill of another one. All other amounts are in such parts.
-- Unless they are what a first take leaves, " <low> <since, us> <back>" follows, for refunds: since that time no grant found less missing
-- than low, and refunds have given back so much in this epoch. While reservations wait, " <last>" follows: what was missing
-- when the newest of them was made and is at that time.
--
-- TTL: until the bucket is full.

--@ read  out: ahead@ at@ back@ capacity@ epoch@ free@ interval@ last@ low@ missing@ most@ part@ refill@ since@
--+ taken@ text@
local capacity@, refill@, interval@ = ARGV[@1] + 0, ARGV[@2] + 0, ARGV[@3] + 0
-- Missing is a whole number, as long as it is below 2^53. Format takes numbers below 2^63 for %d.
local at@, missing@, epoch@, text@ = now, 0, false, call('GET', KEYS[@]) or ''
local low@, since@, back@, last@ = 0, now, 0, 0
if text@ ~= '' then
  local word, at, taken, part, rest = match(text@, '^(%w+) (%d+) (%d+) (%d+)(.*)$')
  local low, since, back, last = match(rest or '', '^ (%d+) (%d+) (%d+) ?(%d*)$')
  if not word or #at > 18 or #taken > 16 or #part > 16 or rest ~= '' and (not low or #low > 33 or #since > 18 or #back > 99 or #last > 33) then
    return {3, @, text@}
  end
  -- The base is 10 for leading zeros. miniredis reads numbers from 2^63 on with a point only.
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
-- Reservations wait while more than this is missing of what was missing when they were made.
local ahead@ = capacity@ * interval@

--@ add  in: at@ back@ epoch epoch@ interval@ last@ low@ missing@ n since@  out: back@ epoch@ last@ low@ missing@
--+ since@
-- Takes n more. If the bucket was much fuller than low, low starts again: grants before that are refunded without it.
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
-- At once, or with a mark what is missing because of the grant: no more than the least that was missing since. Each of these is no more
-- than that: the grant less all refill since; what the grant left missing less all refill and all refunds since; low, if the grant is in it.
-- Reservations that wait keep their moments.
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
-- Until the bucket would hold n, after all that was taken before. Permits beyond 2^53 in all are not counted any more.
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
-- Own is what was missing when the reservation was made and is still missing. Later is what was reserved after it.
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
