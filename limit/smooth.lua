-- Smooth. ARGV: the cost of a permit in microseconds; the most stored permits; the microseconds
-- until another one is stored. With a warm-up two more follow: the number of stored permits above
-- which they cost more, and how much more each costs. Without one they are ''. All are doubles.
--
-- The key holds "<epoch> <stored> <at> <wait> <rate>". Times are microseconds:
--   stored  The stored permits at the time of the state.
--   at      The time of the state.
--   wait    From at until the next permits are free.
--   rate    The second and third argument, by which the TTL was set; 0 if those of another version of a
--           program, with a lower rate, have set it.
--
-- TTL: until all permits are stored, and a second more: see backdate in scripts/acquire.lua. A call with
-- another rate does not shorten it, and a denial prolongs it.

--@ read  out: at@ cool@ credit@ epoch@ free@ left@ most@ next@ other@ rate@ size@ slope@ stable@ stored@ text@
--+ threshold@
-- Sets other@, whether a call with another rate has set the TTL.
local stable@, size@, cool@ = tonumber(ARGV[@1]), tonumber(ARGV[@2]), tonumber(ARGV[@3])
local threshold@, slope@ = tonumber(ARGV[@4]), tonumber(ARGV[@5])
local rate@, other@ = ARGV[@2] .. ':' .. ARGV[@3], false
local at@, stored@, next@, epoch@, text@ = now, size@, now, false, call('GET', KEYS[@1]) or ''
if text@ ~= '' then
  local word, stored, at, wait, rate = match(text@, '^(%w+) (%d[%d.e+-]*) (%d+) (%d+) ([%d.:]+)$')
  stored = tonumber(stored or '')
  if not stored or #at > 16 or #wait > 16 then
    return {3, @, text@}
  end
  -- A caller that others have overtaken, or whose clock has gone back, is as late as they were.
  at@ = max(now, min(9007199254740992, tonumber(at)))
  stored@, next@ = min(stored, size@), min(9007199254740992, at + wait)
  if at@ > next@ then
    at@ = max(next@, at@ - (backdate or 0)) -- from which the permits of a waiter count
    stored@, next@ = min(size@, stored@ + (at@ - next@) / cool@), at@
  end
  epoch@, other@ = (next@ > at@ or stored@ < size@) and word, rate ~= rate@
end
-- A request is granted whatever its size if the limiter is free, or if the request before it found
-- enough stored permits.
local free@, most@, credit@, left@ = 9007199254740992, 9007199254740992, -1, 0
if next@ <= at@ then
  -- Less than a microsecond is no wait.
  credit@ = ceil(1 / (stable@ + (slope@ and slope@ * (size@ - threshold@) or 0))) - 1 + (slope@ and 0 or stored@)
  if at@ < now then
    credit@ = credit@ + floor((now - at@) / (stable@ + (slope@ and slope@ * max(0, stored@ - threshold@) or 0)))
  end
  left@ = stored@
end

--@ credit  in: credit credit@  out: credit
credit = min(credit, credit@)

--@ life  in: cool@ next@ size@ stored@
-- A little longer than it takes: rounding must not leave a part of a permit.
local life = floor((next@ - now + ceil((size@ - stored@) * cool@)) / 1000) + 1001

--@ write  in: at@ cool@ epoch@ next@ other@ rate@ size@ stored@ text@  out: text@
if next@ > at@ or stored@ < size@ then
  --@include life
  local left = other@ and call('PTTL', KEYS[@1]) or 0
  text@ = format('%s %.17g %d %d %s', epoch@, stored@, at@, next@ - at@, left > life and '0' or rate@)
  call('SET', KEYS[@1], text@, 'PX', format('%d', max(left, life)))
else
  text@ = ''
  call('UNLINK', KEYS[@1])
end

--@ settle  in: at@ cool@ epoch@ granted next@ other@ rate@ size@ stored@ text@  out: text@
-- A denial prolongs the state that a call with a higher rate has left.
if granted == 0 and other@ and epoch@ then
  --@include life
  if call('PTTL', KEYS[@1]) < life - 1001 then
    --@include write
  end
end

--@ take  in: at@ cool@ epoch epoch@ granted left@ next@ other@ rate@ size@ slope@ stable@ stored@ text@ threshold@
--+ out: epoch@ left@ next@ other@ stored@ text@
if not epoch@ then
  epoch@, other@ = epoch, false
end
do
  local wait, spent = 0, min(granted, stored@)
  if slope@ then
    local above, below = stored@ - threshold@, spent
    if above > 0 then
      local expensive = min(above, below)
      wait = floor(expensive * ((stable@ + above * slope@) + (stable@ + (above - expensive) * slope@)) / 2)
      below = below - expensive
    end
    wait = wait + floor(stable@ * below)
  end
  wait = min(9007199254740992, wait + floor((granted - spent) * stable@))
  stored@, next@ = stored@ - spent, min(9007199254740992, next@ + wait)
end
-- Below 0 it is by how many permits the last request exceeded the stored ones. The requests before
-- it saw those that were left then.
left@ = slope@ and next@ > at@ and 0 or left@ - granted
--@include write

--@ release  in: at@ cool@ epoch@ n next@ other@ rate@ receipts size@ stable@ stored@ text@  out: next@ text@
-- Returns permits at once. With a receipt, returns no more than the wait that the grant left, and
-- subtracts all time since, which may have paid for it.
do
  local receipt = receipts[@]
  local back = n * stable@
  if receipt then
    local word, at, wait = match(receipt, '^(%w+) %S+ (%d+) (%d+) ')
    back = word and word == epoch@ and min(back, wait + 0) - (at@ - at) or 0
  end
  back = min(floor(back), next@ - at@)
  if back > 0 then
    next@ = next@ - back
    --@include write
  end
end

--@ report  in: at@ cool@ left@ next@ size@ stored@ text@  out: report@
local report@ = {text@, floor(left@), 0, 0}
if next@ > at@ or stored@ < size@ then
  report@[3], report@[4] = next@ > at@ and max(0, next@ - now) or 0, max(0, next@ - now) + ceil((size@ - stored@) * cool@)
end

--@ peek  in: epoch@ other@ report@
-- Peek and Drain do not prolong the TTL, so they report no time beyond it.
if epoch@ and other@ then
  report@[5] = max(0, call('PTTL', KEYS[@1])) * 1000
end

--@ next  in: drips next next@  out: drips next
next = max(next, next@ - now)
drips = true
