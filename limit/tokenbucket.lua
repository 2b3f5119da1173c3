-- TokenBucket. ARGV: capacity, refill, interval in microseconds. The key holds "<epoch> <at>
-- <taken> <part> <rate>", then " <refunded>" if permits were refunded, and after it " <extra>" if calls
-- have had another rate:
--   at        The time of the state, in microseconds.
--   taken     The permits that are missing from a full bucket at that time.
--   part      The part of another permit that is missing. A permit has as many parts as the
--             interval has microseconds. All other amounts are in parts.
--   rate      The refill of the call that began the epoch.
--   refunded  The amount that refunds returned in this epoch.
--   extra     The amount that was refilled in this epoch, less what its rate had refilled.
--
-- TTL: until the bucket is full, and a second more: see backdate in scripts/acquire.lua. In an epoch with
-- calls of several rates no call shortens it, and a denial prolongs it.

--@ read  out: at@ early@ epoch@ extra@ free@ interval@ missing@ most@ other@ part@ refill@ refunded@ taken@ text@
--
-- Sets other@, the rate of the epoch if a call has had another one, else false.
local most@, refill@, interval@ = ARGV[@1] + 0, ARGV[@2] + 0, ARGV[@3] + 0
-- missing is a whole number while it is below 2^53. format accepts numbers below 2^63 for %d. early is
-- what would have been refilled while the bucket was full and a caller waited: the state of a waiter is
-- that of the time from which it counts.
local at@, missing@, refunded@, extra@, early@, epoch@, other@ = now, 0, 0, 0, 0, false, false
local text@ = call('GET', KEYS[@1]) or ''
if text@ ~= '' then
  local word, at, taken, part, rate, rest = match(text@, '^(%w+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  local refunded, extra = match(rest or '', '^ (%d+) ?(-?%d*)$')
  if not word or #at > 18 or max(#taken, #part, #rate) > 16
      or rest ~= '' and (not refunded or max(#refunded, #extra) > 99) then
    return {3, @, text@}
  end
  -- The base 10 is for leading zeros. miniredis reads numbers from 2^63 on only with a point.
  at@, missing@ = at + 0, tonumber(taken, 10) * interval@ + part
  if refunded then
    refunded@ = tonumber(refunded .. '.')
    extra@ = tonumber(extra .. '.') or 0
  end
  if rate ~= ARGV[@2] or refunded and extra ~= '' then
    other@ = rate + 0
    extra@ = extra@ + max(0, now - at@) * (refill@ - other@)
  end
  if at@ < now then
    local full = at@ + ceil(missing@ / refill@)
    if backdate and full < now then
      at@, missing@ = max(full, now - backdate), 0
      early@ = (now - at@) * refill@
    else
      missing@, at@ = max(0, missing@ - (now - at@) * refill@), now
    end
  end
  epoch@ = missing@ > 0 and word
end
local part@ = fmod(missing@, interval@)
local taken@ = floor((missing@ - part@) / interval@ + 0.5)
local free@ = most@ - taken@ - (part@ > 0 and 1 or 0) + floor(early@ / interval@)

--@ life  in: at@ missing@ refill@
local life = max(1, min(9007199254740, ceil((missing@ / refill@ + (at@ - now)) / 1000) + 1000))

--@ write  in: at@ epoch@ extra@ interval@ missing@ other@ part@ refill@ refunded@ taken@ text@  out: part@ taken@ text@
part@ = fmod(missing@, interval@)
taken@ = floor((missing@ - part@) / interval@ + 0.5)
if missing@ > 0 then
  --@include life
  text@ = format('%s %d %d %d %d', epoch@, at@, taken@, part@, other@ or refill@)
  if other@ then
    text@, life = text@ .. format(' %.0f %.0f', refunded@, extra@), max(call('PTTL', KEYS[@1]), life)
  elseif refunded@ > 0 then
    text@ = text@ .. format(' %.0f', refunded@)
  end
  call('SET', KEYS[@1], text@, 'PX', format('%d', life))
else
  text@ = ''
  call('UNLINK', KEYS[@1])
end

--@ settle  in: at@ epoch@ extra@ granted interval@ missing@ other@ part@ refill@ refunded@ taken@ text@
--+ out: text@
-- A denial prolongs the state that a call with a higher rate has left.
if granted == 0 and other@ and epoch@ then
  --@include life
  if call('PTTL', KEYS[@1]) < life - 1000 then
    --@include write
  end
end

--@ take  in: at@ epoch epoch@ extra@ granted interval@ missing@ other@ part@ refill@ refunded@ taken@ text@
--+ out: epoch@ extra@ missing@ other@ part@ refunded@ taken@ text@
if not epoch@ then
  epoch@, refunded@, extra@, other@ = epoch, 0, 0, false
end
-- Only Charge reaches the largest amount.
missing@ = min(9007199254740992 * interval@, missing@ + granted * interval@)
--@include write

--@ release  in: at@ epoch@ extra@ interval@ missing@ n other@ part@ receipts refill@ refunded@ taken@ text@
--+ out: missing@ part@ refunded@ taken@ text@
-- Returns permits at once. With a receipt, returns no more than is still missing because of the grant.
-- What is still missing because of the grant is at least the larger of these:
--   - the grant less all refill since.
--   - the amount that was missing after the grant, less all refill and all refunds since.
do
  local receipt = receipts[@]
  local due = n * interval@
  if receipt then
    local word, at, taken, part, rest = match(receipt, '^(%w+) (%d+) (%d+) (%d+) %d+(.*)$')
    if word and word == epoch@ then
      local before, extra = match(rest, '^ (%d+) ?(-?%d*)')
      local refilled = (at@ - at) * (other@ or refill@) + extra@ - (tonumber((extra or '') .. '.') or 0)
      before = tonumber((before or '0') .. '.')
      due = min(due, max(due, tonumber(taken, 10) * interval@ + part - refunded@ + before) - refilled)
    else
      due = 0
    end
  end
  due = min(due, missing@)
  if due > 0 then
    missing@, refunded@ = missing@ - due, refunded@ + due
    --@include write
  end
end

--@ report  in: at@ part@ taken@ text@  out: report@
local report@ = {text@, taken@, part@, at@ - now}

--@ peek  in: epoch@ other@ report@
-- Peek and Drain do not prolong the TTL, so they report no time beyond it.
if epoch@ and other@ then
  report@[5] = max(0, call('PTTL', KEYS[@1])) * 1000
end

--@ next  in: drips interval@ missed missing@ most@ next refill@  out: drips next
next = max(next, (((missed or 1) - most@) * interval@ + missing@) / refill@)
drips = true
