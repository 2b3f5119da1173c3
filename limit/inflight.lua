-- InFlight. ARGV: permits; lease in milliseconds; the ID of the places that the call takes. The key is a sorted set:
--   "clock"  Its score is -1 minus the latest time.
--   "held"   Its score is minus the permits of all places.
--   "<id> <n> <permits> <lease>"  The place of the n-th request of a call, from 0 on. Its score is the end of its
--            lease. The ID begins with the time of the call by its Client, which only the tool reads.
-- Times are milliseconds.
--
-- One ZADD changes the places and their sum, so a script can stop anywhere. It gives places that are to
-- be removed the score 0, by which they no longer count.
--
-- TTL: two leases from the last grant or renewal, or until an earlier lease ends that is longer. In the second, a
-- call finds the places whose lease has ended, and counts them.

--@ read  out: at@ dead@ first@ free@ held@ most@ text@
-- Sets at@, the time. A lease that ends by then has ended.
-- Sets dead@, a page of the places whose lease has ended, with their scores.
-- Sets first@, when the next lease ends: nil if no permit is held.
-- Sets text@ to '': a place has no receipt.
local most@, at@, held@, first@, dead@, text@ = ARGV[@1] + 0, millis, 0, nil, {}, ''
do
  local found = call('ZRANGE', KEYS[@1], 0, 2, 'WITHSCORES')
  if found[1] then
    local score = {[found[1]] = found[2], [found[3] or ''] = found[4]}
    local latest = score.clock
    if not latest or not score.held or max(latest, score.held) > -1 then
      return {3, @, found[1]}
    end
    held@, at@, first@ = -score.held, max(at@, -1 - latest), tonumber(found[6] or '')
    if first@ and first@ <= at@ then
      dead@ = call('ZRANGEBYSCORE', KEYS[@1], 0, format('%d', at@), 'WITHSCORES', 'LIMIT', 0, 256)
      for i = 1, #dead@, 2 do
        local count = match(dead@[i], '^%w+ %d+ (%d+) %d+$')
        if not count then
          return {3, @, dead@[i]}
        elseif dead@[i + 1] ~= '0' then
          held@ = held@ - count
        end
      end
      local next = call('ZRANGEBYSCORE', KEYS[@1], format('(%d', at@), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
      first@ = tonumber(next[2] or '')
    end
    if not first@ then
      held@ = 0
    end
  end
end
local free@ = most@ - held@

--@ more  in: at@ dead@ first@ free held@ total
-- More leases may have ended than a page.
if total > free and first@ and #dead@ == 512 then
  --@include drop
  return {1, format('%d', now)}
end

--@ drop  in: at@ dead@ held@
-- Removes places, of which held@ has none.
do
  local change, gone = {-1 - at@, 'clock', -held@, 'held'}, {}
  for i = 1, #dead@, 2 do
    change[#change + 1] = 0
    change[#change + 1] = dead@[i]
    gone[#gone + 1] = dead@[i]
  end
  call('ZADD', KEYS[@1], unpack(change))
  call('ZREM', KEYS[@1], unpack(gone))
end

--@ place  in: answers at@ dead@ first@ granted held@ runs text@  out: first@ held@ text@
-- Sets text@ to the number of the places that it removes, if there are any.
if dead@[1] then
  text@ = format('%d', #dead@ / 2)
  if first@ then
    --@include drop
  else
    call('UNLINK', KEYS[@1])
  end
end
do
  held@ = held@ + granted
  local finish, change, n = at@ + ARGV[@2], {-1 - at@, 'clock', -held@, 'held'}, 0
  for permits, times in string.gmatch(runs or format('%d*1', granted), '(%d+)%*(%d+)') do
    for _ = 1, times + 0 do
      n = n + 1
      local letter = answers and string.sub(answers, n, n) or 'g'
      if letter == 'p' then
        permits = match(answers, '%d+$')
      end
      if letter == 'g' or letter == 'p' then
        change[#change + 1] = finish
        change[#change + 1] = format('%s %d %s %s', ARGV[@3], n - 1, permits, ARGV[@2])
      end
    end
  end
  first@ = min(first@ or finish, finish)
  call('ZADD', KEYS[@1], unpack(change))
  call('PEXPIRE', KEYS[@1], format('%d', max(call('PTTL', KEYS[@1]), 2 * ARGV[@2])))
end

--@ return  in: at@ dead@ expired held@ places  out: expired held@
-- Sets expired, the number of places that it removes since their lease has ended.
expired = #dead@ / 2
for i = 1, #places do
  local finish = call('ZSCORE', KEYS[@1], places[i])
  if finish and finish + 0 > at@ then
    held@ = held@ - match(places[i], '^%w+ %d+ (%d+) %d+$')
    dead@[#dead@ + 1] = places[i]
    dead@[#dead@ + 1] = finish
  end
end
if dead@[1] and held@ > 0 then
  --@include drop
elseif dead@[1] then
  call('UNLINK', KEYS[@1])
end

--@ renew  in: at@ ended places
do
  local finish, change = at@ + ARGV[@2], {-1 - at@, 'clock'}
  for i = 1, #places do
    local before = call('ZSCORE', KEYS[@1], places[i])
    if before and before + 0 > at@ then
      change[#change + 1] = max(before, finish)
      change[#change + 1] = places[i]
    else
      ended[#ended + 1] = i
    end
  end
  if change[3] then
    call('ZADD', KEYS[@1], unpack(change))
    call('PEXPIRE', KEYS[@1], format('%d', max(call('PTTL', KEYS[@1]), 2 * ARGV[@2])))
  end
end

--@ report  in: first@ held@ text@  out: report@
-- The held permits, and the times until the last and until the next lease ends.
local report@ = {text@, held@, 0, 0}
if held@ > 0 then
  local last = call('ZRANGE', KEYS[@1], -1, -1, 'WITHSCORES')[2]
  report@[3], report@[4] = last * 1000 - now, first@ * 1000 - now
end

--@ hold  in: holds rival t waiters  out: holds since@
-- A place that is held for another Client is idle until that asks. So places are held for 60 of 250 ms at most.
local since@ = t + 3e15 - (rival and tonumber(redis.pcall('ZSCORE', waiters, 'held')) or 0)
since@ = since@ < 0 and 250 or since@ -- the clock of Redis has gone back
holds = since@ >= 250 or since@ <= 60

--@ next  in: granted held held@ isFirst missed most@ next report@ rival since@ t waiters  out: next
-- Nothing is known of when permits return. Of several Clients, the first in line asks more often: the others
-- leave it what they return. See askForHeld in inflight.go.
if (missed or 1) > most@ - held@ then
  report@[4] = rival and isFirst and granted == 0 and 20000 or 100000
  next = max(next, report@[4])
end
if held > 0 and since@ >= 250 then
  redis.pcall('ZADD', waiters, 3e15 + t, 'held')
end
