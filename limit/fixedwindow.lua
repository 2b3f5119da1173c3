-- FixedWindow. ARGV: permits; interval in milliseconds. The key holds the taken permits, a plain
-- integer, and expires when the window ends. That is the format of INCREX (Redis 8.8, Valkey 9.2), by which other
-- programs can share it. A window begins with its first permit. Only the clock of Redis ends it.

--@ read  out: count@ free@ left@ most@ text@
-- Sets count@, the text of the key, or false if no window is open. left@ is not known yet: the milliseconds
-- until the window ends. The text@ is 'new' if the call begins the window, else ''.
local most@, count@, left@, text@ = ARGV[@1] + 0, call('GET', KEYS[@1]), false, ''
if count@ and count@ ~= '0' and (not match(count@, '^[1-9]%d*$') or #count@ > 16) then
  return {3, @, count@}
end
local free@ = most@ - (count@ or 0)

--@ length  out: length@
local length@ = ARGV[@2]

--@ begin  in: left@  out: left@
left@ = ARGV[@2]

--@ left  in: count@ left@  out: left@
-- A key outlives a PTTL of 0 by up to a millisecond.
if count@ and not left@ then
  left@ = call('PTTL', KEYS[@1])
  if left@ == 0 then
    left@ = 1
  end
end

--@ expire  in: count@ left@  out: left@
-- Gives the key an expiry that has none, as another program may have left it.
--@include left
if left@ == -1 then
  --@include begin
  call('PEXPIRE', KEYS[@1], left@)
end

--@ prefetch  in: count@ left@ span  out: left@ span
-- Prefetched permits are used in the window that counts them.
--@include length
if not count@ then
  --@include begin
end
span = min(span, floor(length@ / 16), count@ and call('PTTL', KEYS[@1]) or left@ + 0)

--@ take  in: amount count@ granted left@ text@  out: count@ left@ text@
if count@ then
  count@ = call('INCRBY', KEYS[@1], amount)
else
  --@include begin
  call('SET', KEYS[@1], amount, 'PX', left@)
  count@, text@ = granted, 'new'
end

--@ charge  in: count@ granted left@ text@  out: count@ left@ text@
do
  local amount = format('%d', max(0, min(granted, 9007199254740992 - (count@ or 0))))
  --@include take
end

--@ release  in: age count@ n receipts
-- A refund goes to the window of its grant. Its receipt, see windowReceipt, has one of these:
--   <left>   The milliseconds until the end of the window, at the grant. Now they are less, by the age or more. The
--            clock by which the age is known may run faster than that of Redis, by one in a thousand.
--   +<took>  To be added to the age. A window that is as old is that of the grant.
if count@ then
  local left, receipt = call('PTTL', KEYS[@1]), receipts[@] or ''
  local own, took = age == '', match(receipt, '^%+(%d+)$')
  if took then
    --@include length
    own = left >= 0 and length@ - left >= age + took
  elseif not own then
    own = left >= 0 and left <= (tonumber(receipt) or 0) - age * 0.999
  end
  if own then
    if n < count@ + 0 then
      call('INCRBY', KEYS[@1], format('%d', -n))
    else
      call('UNLINK', KEYS[@1])
    end
  end
end

--@ flat  in: count@ flags granted left@ runs
-- The reply of Take: {count, left}, or if it is denied {-1, count, left}.
if flags == 'd' and not runs then
  --@include expire
  if granted > 0 then
    return {count@, left@ + 0}
  end
  return {-1, (count@ or 0) + 0, (left@ or 0) + 0}
end

--@ report  in: count@ left@ text@  out: report@
-- The taken permits, and the milliseconds until the window ends: 0 if none is open, -1 without an expiry.
--@include left
local report@ = {text@, (count@ or 0) + 0, (left@ or 0) + 0}

--@ next  in: batch count@ ends left@ missed most@ next window  out: batch ends next window
--@include length
if (missed or 1) > most@ - (count@ or 0) then
  next = max(next, (left@ or 0) * 1000)
end
if not batch or most@ < batch then
  batch, window, ends = most@, length@ + 0, (left@ or 0) + 0
end
