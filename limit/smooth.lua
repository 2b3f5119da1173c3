-- Smooth. ARGV: what a permit costs in microseconds, the most permits stored, the microseconds until another one is stored;
-- and with a warm-up above how many stored ones they cost more, and how much more each, else '' twice. All are doubles. The key
-- holds "<stored permits> <at, us> <wait, us>": what was stored at that time, and how long it took until the next permits were
-- free; and where reservations wait " <last> <since>": the free moment behind the newest of them, and the time at which
-- reservations began to wait.

--@ read
local stable@, size@, cool@, threshold@, slope@ = tonumber(ARGV[@1]), tonumber(ARGV[@2]), tonumber(ARGV[@3]), tonumber(ARGV[@4]), tonumber(ARGV[@5])
local at@, stored@, next@, last@, since@, text@ = now, size@, now, 0, 0, call('GET', KEYS[@]) or ''
if text@ ~= '' then
  local stored, at, wait, rest = match(text@, '^(%d[%d.e+-]*) (%d+) (%d+)(.*)$')
  local last, since = match(rest or '', '^ (%d+) (%d+)$')
  stored = tonumber(stored or '')
  if not stored or #at > 16 or #wait > 16 or rest ~= '' and (not last or #last > 16 or #since > 16) then
    return {3, @, text@}
  end
  if last then
    last@, since@ = min(9007199254740992, tonumber(last)), tonumber(since)
  end
  -- A caller that others have overtaken, or whose clock has gone back, is as late as they were.
  at@ = max(now, min(9007199254740992, tonumber(at)))
  stored@, next@ = min(stored, size@), min(9007199254740992, at + wait)
  if at@ > next@ then
    stored@, next@ = min(size@, stored@ + (at@ - next@) / cool@), at@
  end
end
-- Whoever comes when it is free is granted everything, and so is who comes behind somebody who found enough stored.
local free@, most@, credit@, left@ = 9007199254740992, 9007199254740992, -1, 0
if next@ <= at@ then
  -- What takes less than a microsecond is no wait.
  credit@, left@ = ceil(1 / (stable@ + (slope@ and slope@ * (size@ - threshold@) or 0))) - 1 + (slope@ and 0 or stored@), stored@
end

--@ spend
local wait, spent = 0, min(n, stored@)
if slope@ then
  local above, below = stored@ - threshold@, spent
  if above > 0 then
    local dear = min(above, below)
    wait = floor(dear * ((stable@ + above * slope@) + (stable@ + (above - dear) * slope@)) / 2)
    below = below - dear
  end
  wait = wait + floor(stable@ * below)
end
wait = wait + floor((n - spent) * stable@)
stored@, next@ = stored@ - spent, min(9007199254740992, next@ + wait)

--@ write
if next@ > at@ or stored@ < size@ then
  text@ = format('%.17g %d %d', stored@, at@, next@ - at@)
  if last@ > at@ then
    text@ = text@ .. format(' %d %d', last@, since@)
  end
  -- A moment longer than it takes: rounding must not leave a trace of a permit behind.
  call('SET', KEYS[@], text@, 'PX', floor((next@ - now + ceil((size@ - stored@) * cool@)) / 1000) + 1)
else
  text@ = ''
  call('UNLINK', KEYS[@])
end

--@ take
local n = granted
--@spend
-- Below 0 it is how much more than was stored the last request took: those before it saw what was left then.
left@ = slope@ and next@ > at@ and 0 or left@ - n
--@write

--@ late
late = late or at@ > now

--@ release
-- Of a call at a time, less what has been paid for since. Those who wait keep their moments.
next@ = max(last@ > at@ and min(last@, next@) or at@, next@ - max(0, floor(n * stable@) - (dated and max(0, at@ - dated) or 0)))
--@write

--@ due
delay = next@ > at@ and next@ - now or 0

--@ book
-- The ticket is the next free moment behind it, what it costs and the stored permits that it found; and of one behind which
-- others wait, since when reservations do.
--@spend
local waits = 0
if next@ > at@ then
  if last@ <= at@ then
    since@ = at@
  end
  last@, waits = next@, since@
end
ticket = format('%d %d %.17g %d', next@, wait, spent, waits)

--@ undo
-- Later is what was reserved behind it.
local own, cost, spent, waits = match(text, '^%d+ (%d+) (%d+) (%S+) (%d+)$')
own, cost, spent = tonumber(own), tonumber(cost), tonumber(spent)
local later, unused = max(0, last@ - own), spent
if own <= at@ then
  -- It is paid for. What was stored would have been so again, little by little.
  later, unused = 0, spent - (at@ - own) / cool@
elseif last@ <= at@ or tonumber(waits) ~= since@ then
  -- Nobody waits any more, or only who began later, and not even this one: somebody has reset the limiter since.
  later = cost + 1
elseif last@ == own then
  last@ = own - cost
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

--@ tell
local told@ = {text@, floor(left@), 0, 0, at@ - now}
if next@ > at@ or stored@ < size@ then
  told@[3], told@[4] = next@ > at@ and next@ - now or 0, next@ - now + ceil((size@ - stored@) * cool@)
end
