-- Smooth. ARGV: the cost of a permit in microseconds; the most stored permits; the microseconds
-- until another one is stored. With a warm-up two more follow: the number of stored permits above
-- which they cost more, and how much more each costs. Without one they are ''. All are doubles.
--
-- The key holds "<epoch> <stored> <at> <wait>", then " <last> <reserved>" if permits were reserved.
-- Times are microseconds:
--   stored    The stored permits at the time of the state.
--   at        The time of the state.
--   wait      From at until the next permits are free.
--   last      The time at which permits are free after the newest reservation.
--   reserved  The cost of all reservations of this epoch, modulo 2^53. A reservation that is cancelled
--             before a newer one is made does not count.
--
-- TTL: until all permits are stored.

--@ read  out: at@ cool@ credit@ epoch@ free@ last@ left@ most@ next@ reserved@ size@ slope@ stable@ stored@ text@
--+ threshold@
local stable@, size@, cool@ = tonumber(ARGV[@1]), tonumber(ARGV[@2]), tonumber(ARGV[@3])
local threshold@, slope@ = tonumber(ARGV[@4]), tonumber(ARGV[@5])
local at@, stored@, next@, last@, reserved@, epoch@, text@ = now, size@, now, 0, 0, false, call('GET', KEYS[@1]) or ''
if text@ ~= '' then
  local word, stored, at, wait, rest = match(text@, '^(%w+) (%d[%d.e+-]*) (%d+) (%d+)(.*)$')
  local last, reserved = match(rest or '', '^ (%d+) (%d+)$')
  stored = tonumber(stored or '')
  if not stored or #at > 16 or #wait > 16 or rest ~= '' and (not last or #last > 16 or #reserved > 16) then
    return {3, @, text@}
  end
  if last then
    last@, reserved@ = min(9007199254740992, tonumber(last)), tonumber(reserved)
  end
  -- A caller that others have overtaken, or whose clock has gone back, is as late as they were.
  at@ = max(now, min(9007199254740992, tonumber(at)))
  stored@, next@ = min(stored, size@), min(9007199254740992, at + wait)
  if at@ > next@ then
    stored@, next@ = min(size@, stored@ + (at@ - next@) / cool@), at@
  end
  epoch@ = (next@ > at@ or stored@ < size@) and word
end
-- A request is granted whatever its size if the limiter is free, or if the request before it found
-- enough stored permits.
local free@, most@, credit@, left@ = 9007199254740992, 9007199254740992, -1, 0
if next@ <= at@ then
  -- Less than a microsecond is no wait.
  credit@ = ceil(1 / (stable@ + (slope@ and slope@ * (size@ - threshold@) or 0))) - 1 + (slope@ and 0 or stored@)
  left@ = stored@
end

--@ credit  in: credit credit@  out: credit
credit = min(credit, credit@)

--@ spend  in: epoch epoch@ last@ n next@ reserved@ slope@ stable@ stored@ threshold@  out: epoch@ last@ next@ reserved@
--+ stored@
if not epoch@ then
  epoch@, last@, reserved@ = epoch, 0, 0
end
local wait, spent = 0, min(n, stored@)
if slope@ then
  local above, below = stored@ - threshold@, spent
  if above > 0 then
    local expensive = min(above, below)
    wait = floor(expensive * ((stable@ + above * slope@) + (stable@ + (above - expensive) * slope@)) / 2)
    below = below - expensive
  end
  wait = wait + floor(stable@ * below)
end
wait = min(9007199254740992, wait + floor((n - spent) * stable@))
stored@, next@ = stored@ - spent, min(9007199254740992, next@ + wait)

--@ write  in: at@ cool@ epoch@ last@ next@ reserved@ size@ stored@ text@  out: text@
if next@ > at@ or stored@ < size@ then
  text@ = format('%s %.17g %d %d', epoch@, stored@, at@, next@ - at@)
  if last@ > at@ or reserved@ > 0 then
    text@ = text@ .. format(' %d %d', last@, reserved@)
  end
  -- A little longer than it takes: rounding must not leave a part of a permit.
  call('SET', KEYS[@1], text@, 'PX', floor((next@ - now + ceil((size@ - stored@) * cool@)) / 1000) + 1)
else
  text@ = ''
  call('UNLINK', KEYS[@1])
end

--@ take  in: at@ cool@ epoch epoch@ granted last@ left@ next@ reserved@ size@ slope@ stable@ stored@ text@ threshold@
--+ out: epoch@ last@ left@ next@ reserved@ stored@ text@
do
  local n = granted
  --@include spend
  -- Below 0 it is by how many permits the last request exceeded the stored ones. The requests before
  -- it saw those that were left then.
  left@ = slope@ and next@ > at@ and 0 or left@ - n
  --@include write
end

--@ release  in: at@ cool@ epoch@ last@ receipts n next@ reserved@ size@ stable@ stored@ text@  out: next@ text@
-- Returns permits at once. With a receipt, subtracts all time since the grant, which may have paid for
-- it. Reservations that wait keep their times.
do
  local receipt = receipts[@]
  local back = n * stable@
  if receipt then
    local word, at = match(receipt, '^(%w+) %S+ (%d+) ')
    back = word and word == epoch@ and back - (at@ - at) or 0
  end
  back = min(floor(back), next@ - (last@ > at@ and min(last@, next@) or at@))
  if back > 0 then
    next@ = next@ - back
    --@include write
  end
end

--@ due  in: at@ delay n next@ size@ slope@ stable@ threshold@  out: delay
delay = next@ > at@ and next@ - now or 0
if next@ + n * (stable@ + (slope@ and slope@ * (size@ - threshold@) or 0)) > 9007199254740992 then
  delay = 9007199254740992
end

--@ book  in: at@ epoch epoch@ last@ n next@ receipt reserved@ slope@ stable@ stored@ threshold@  out: epoch@ last@
--+ next@ receipt reserved@ stored@
-- The receipt is "<epoch> <next free time> <cost> <stored permits spent> <reserved> <permits>", as the
-- reservation left them.
--@include spend
if next@ > at@ then
  last@ = next@
end
reserved@ = reserved@ - 9007199254740992 + wait -- no sum is above 2^53: it would be rounded
if reserved@ < 0 then
  reserved@ = reserved@ + 9007199254740992
end
receipt = format('%s %d %d %.17g %d %d', epoch@, next@, wait, spent, reserved@, n)

--@ undo  in: at@ changed cool@ epoch@ last@ next@ reserved@ size@ stored@ text  out: changed last@ next@ reserved@
--+ stored@
-- later is the cost of the reservations after it. Their times do not tell it: a newer reservation
-- may have an earlier time, if another one was cancelled. A part of the permits returns a part of the
-- cost.
local n, word, own, cost, spent, reserved, all = match(text, '^(%d+) (%w+) (%d+) (%d+) (%S+) (%d+) (%d+)$')
if word and word == epoch@ then
  own, cost, spent = tonumber(own), floor(cost * (n / all)), spent * (n / all)
  local later, unused = reserved@ - reserved, spent
  if later < 0 then
    later = later + 9007199254740992
  end
  if own <= at@ then
    -- It is paid for. Its stored permits would have been stored again over time.
    later, unused = 0, spent - (at@ - own) / cool@
  elseif later == 0 then
    last@, reserved@ = own - cost, reserved@ - cost
    if reserved@ < 0 then
      reserved@ = reserved@ + 9007199254740992
    end
  end
  if later == 0 and unused > 0 then
    stored@, changed = min(size@, stored@ + unused), true
  end
  if own > at@ and later < cost then
    next@, changed = next@ - (cost - later), true
    if next@ < at@ then
      stored@, next@ = min(size@, stored@ + (at@ - next@) / cool@), at@
    end
  end
end

--@ report  in: at@ cool@ left@ next@ size@ stored@ text@  out: report@
local report@ = {text@, floor(left@), 0, 0}
if next@ > at@ or stored@ < size@ then
  report@[3], report@[4] = next@ > at@ and next@ - now or 0, next@ - now + ceil((size@ - stored@) * cool@)
end
