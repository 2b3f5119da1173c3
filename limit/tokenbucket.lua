-- TokenBucket. ARGV: capacity, refill, interval in microseconds. The key holds "<epoch> <at>
-- <taken> <part>", then " <refunded>" if permits were refunded, and " <refunded> <last> <reserved>"
-- if reservations waited:
--   at        The time of the state, in microseconds.
--   taken     The permits that are missing from a full bucket at that time.
--   part      The part of another permit that is missing. A permit has as many parts as the
--             interval has microseconds. All other amounts are in parts.
--   refunded  The amount that refunds returned in this epoch.
--   last      The amount that was missing when the newest reservation that waits was made, and still
--             is. 0 if none waits.
--   reserved  The permits of all reservations of this epoch that waited, modulo 2^53. One that is
--             cancelled before a newer one is made does not count.
--
-- TTL: until the bucket is full.

--@ read  out: ahead@ at@ capacity@ epoch@ free@ interval@ last@ missing@ most@ part@ refill@ refunded@
--+ reserved@ taken@ text@
local capacity@, refill@, interval@ = ARGV[@1] + 0, ARGV[@2] + 0, ARGV[@3] + 0
-- missing is a whole number while it is below 2^53. format accepts numbers below 2^63 for %d.
local at@, missing@, refunded@, last@, reserved@, epoch@ = now, 0, 0, 0, 0, false
local text@ = call('GET', KEYS[@1]) or ''
if text@ ~= '' then
  local word, at, taken, part, rest = match(text@, '^(%w+) (%d+) (%d+) (%d+)(.*)$')
  local refunded, last, reserved = match(rest or '', '^ (%d+) ?(%d*) ?(%d*)$')
  if not word or #at > 18 or #taken > 16 or #part > 16
      or rest ~= '' and (not refunded or #refunded > 99 or #last > 33 or #reserved > 16) then
    return {3, @, text@}
  end
  -- The base 10 is for leading zeros. miniredis reads numbers from 2^63 on only with a point.
  at@, missing@ = at + 0, tonumber(taken, 10) * interval@ + part
  if refunded then
    refunded@, last@, reserved@ = tonumber(refunded .. '.'), tonumber('0' .. last .. '.'), tonumber('0' .. reserved, 10)
  end
  if at@ < now then
    missing@, last@, at@ = max(0, missing@ - (now - at@) * refill@), last@ - (now - at@) * refill@, now
  end
  epoch@ = missing@ > 0 and word
end
--@include ahead
local part@ = fmod(missing@, interval@)
local taken@ = floor((missing@ - part@) / interval@ + 0.5)
local free@, most@ = capacity@ - taken@ - (part@ > 0 and 1 or 0), capacity@

--@ ahead  in: capacity@ interval@  out: ahead@
-- A reservation waits while more than this is missing of the amount that was missing when it was
-- made.
local ahead@ = capacity@ * interval@

--@ add  in: epoch epoch@ interval@ last@ missing@ n refunded@ reserved@  out: epoch@ last@ missing@ refunded@ reserved@
if not epoch@ then
  epoch@, refunded@, last@, reserved@ = epoch, 0, 0, 0
end
missing@ = min(9007199254740992 * interval@, missing@ + n * interval@) -- only Charge reaches this

--@ write  in: ahead@ at@ epoch@ interval@ last@ missing@ part@ refill@ refunded@ reserved@ taken@ text@
--+ out: part@ taken@ text@
part@ = fmod(missing@, interval@)
taken@ = floor((missing@ - part@) / interval@ + 0.5)
if missing@ > 0 then
  text@ = format('%s %d %d %d', epoch@, at@, taken@, part@)
  if last@ > ahead@ or reserved@ > 0 then
    text@ = text@ .. format(' %.0f %.0f %.0f', refunded@, last@ > ahead@ and last@ or 0, reserved@)
  elseif refunded@ > 0 then
    text@ = text@ .. format(' %.0f', refunded@)
  end
  call('SET', KEYS[@1], text@, 'PX', format('%d', min(9007199254740, ceil((missing@ / refill@ + (at@ - now)) / 1000))))
else
  text@ = ''
  call('UNLINK', KEYS[@1])
end

--@ take  in: ahead@ at@ epoch epoch@ granted interval@ last@ missing@ part@ refill@ refunded@ reserved@ taken@ text@
--+ out: epoch@ last@ missing@ part@ refunded@ reserved@ taken@ text@
do
  local n = granted
  --@include add
  --@include write
end

--@ release  in: ahead@ at@ epoch@ interval@ last@ receipts missing@ n part@ refill@ refunded@ reserved@ taken@ text@
--+ out: missing@ part@ refunded@ taken@ text@
-- Returns permits at once. With a receipt, returns no more than is still missing because of the grant.
-- Both of these are at most that:
--   - the grant less all refill since.
--   - the amount that was missing after the grant, less all refill and all refunds since.
-- Reservations that wait keep their times.
do
  local receipt = receipts[@]
  local due = n * interval@
  if receipt then
    local word, at, taken, part, rest = match(receipt, '^(%w+) (%d+) (%d+) (%d+)(.*)$')
    if word and word == epoch@ then
      local refilled, before = (at@ - at) * refill@, tonumber((match(rest, '^ (%d+)') or '0') .. '.')
      due = min(due, max(due, tonumber(taken, 10) * interval@ + part - refunded@ + before) - refilled)
    else
      due = 0
    end
  end
  due = min(due, missing@ - (last@ > ahead@ and min(last@, missing@) or 0))
  if due > 0 then
    missing@, refunded@ = missing@ - due, refunded@ + due
    --@include write
  end
end

--@ due  in: ahead@ at@ delay interval@ missing@ n refill@  out: delay due
-- Until the bucket would hold n, after all permits that were taken before. Permits above a total of
-- 2^53 are not counted.
local due = missing@ + n * interval@ - ahead@
--@include wait

--@ wait  in: at@ delay due interval@ missing@ n refill@  out: delay
delay = due > 0 and at@ - now + ceil(due / refill@) or 0
if missing@ / interval@ + n > 9007199254740992 then
  delay = 9007199254740992
end

--@ book  in: ahead@ at@ epoch epoch@ interval@ last@ missing@ n receipt refunded@ reserved@  out: epoch@ last@ missing@
--+ receipt refunded@ reserved@
-- The receipt is "<epoch> <at> <missing> <refunded> <reserved>", as the reservation left them.
--@include add
if missing@ > ahead@ then
  last@, reserved@ = missing@, reserved@ - 9007199254740992 + n -- no sum is above 2^53: it would be rounded
  if reserved@ < 0 then
    reserved@ = reserved@ + 9007199254740992
  end
end
receipt = format('%s %d %.0f %.0f %.0f', epoch@, at@, missing@, refunded@, reserved@)

--@ undo  in: ahead@ at@ changed epoch@ interval@ last@ missing@ refill@ refunded@ reserved@ text  out: changed last@
--+ missing@ refunded@ reserved@
-- own is the amount that was missing when the reservation was made and still is. later is the permits
-- of the reservations after it that waited. The times do not tell them: a newer reservation may have
-- an earlier time, if another one was cancelled.
local permits, word, at, missing, refunded, reserved = match(text, '^(%d+) (%w+) (%d+) (%d+) (%d+) (%d+)$')
if word and word == epoch@ then
  local n, refilled, later = permits * interval@, (at@ - at) * refill@, reserved@ - reserved
  local found = tonumber(missing .. '.')
  local own = found - refilled
  local due, most = own, n
  if later < 0 then
    later = later + 9007199254740992
  end
  if own <= ahead@ then -- it does not wait: as a refund of a grant
    due = max(n - refilled, own - refunded@ + tonumber(refunded .. '.'))
  end
  if found <= ahead@ then -- it never waited
    most = missing@ - (last@ > ahead@ and min(last@, missing@) or 0)
  elseif own > ahead@ or last@ > ahead@ then
    most = n - later * interval@
  end
  due = min(due, n, most, missing@)
  if due > 0 then
    if found > ahead@ and later == 0 then
      reserved@, last@ = reserved@ - permits, own > ahead@ and own - n or last@
      if reserved@ < 0 then
        reserved@ = reserved@ + 9007199254740992
      end
    end
    missing@, refunded@, changed = missing@ - due, refunded@ + due, true
  end
end

--@ report  in: at@ part@ taken@ text@  out: report@
local report@ = {text@, taken@, part@, at@ - now}
