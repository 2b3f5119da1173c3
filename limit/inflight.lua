-- InFlight. ARGV: permits; lease in milliseconds. The key is a sorted set:
--   "clock"                  Its score is -1 minus the latest time, or that of the latest grant.
--   "held"                   Its score is minus the permits of all grants.
--   "<epoch> <end> <count>"  A grant. Its score is the end of its lease.
-- Times are milliseconds and three more digits, which number the grants of a millisecond: so a refund
-- finds its grant by the end.
--
-- One ZADD changes the grants and their sum, so a script can stop anywhere. It gives grants that are to
-- be removed the score 0, by which they no longer count.
--
-- TTL: a lease from the last grant, or until an earlier lease ends that is longer.

--@ read  out: at@ clock@ dated@ dead@ first@ free@ held@ most@ rest@ text@
-- Sets clock@, the time. Sets at@, the end of its millisecond: a lease that ends by then has ended.
-- Sets dated@, the time of a grant.
-- Sets dead@, a page of the grants whose lease has ended, with their scores.
-- Sets first@, when the next lease ends: nil if no permit is held. The receipt is text@.
local most@, clock@, held@, first@, dead@, rest@, text@ = ARGV[@1] + 0, millis * 1000, 0, nil, {}, nil, ''
local at@, dated@ = clock@ + 999, clock@
do
  local found = call('ZRANGE', KEYS[@1], 0, 2, 'WITHSCORES')
  if found[1] then
    local score = {[found[1]] = found[2], [found[3] or ''] = found[4]}
    local latest = score.clock
    if not latest or not score.held or max(latest, score.held) > -1 then
      return {3, @, found[1]}
    end
    held@, dated@, clock@ = -score.held, max(clock@, -latest), max(clock@, -1 - latest)
    at@, first@ = clock@ - clock@ % 1000 + 999, tonumber(found[6] or '')
    if first@ and first@ <= at@ then
      dead@ = call('ZRANGEBYSCORE', KEYS[@1], 0, format('%d', at@), 'WITHSCORES', 'LIMIT', 0, 256)
      for i = 1, #dead@, 2 do
        local count = match(dead@[i], '^%w+ %d+ (%d+)$')
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

--@ more  in: clock@ dead@ first@ free held@ rest@ total
-- More leases may have ended than a page.
if total > free and first@ and #dead@ == 512 then
  --@include drop
  return {1, format('%d', now)}
end

--@ drop  in: clock@ dead@ held@ rest@
-- Removes grants. A grant that keeps permits is replaced by rest@, its score and member.
do
  local change, gone = {-1 - clock@, 'clock', -held@, 'held', unpack(rest@ or {})}, {}
  for i = 1, #dead@, 2 do
    change[#change + 1] = 0
    change[#change + 1] = dead@[i]
    gone[#gone + 1] = dead@[i]
  end
  call('ZADD', KEYS[@1], unpack(change))
  call('ZREM', KEYS[@1], unpack(gone))
end

--@ take  in: clock@ dated@ dead@ epoch first@ granted held@ rest@ text@  out: first@ held@ text@
if dead@[1] and first@ then
  --@include drop
elseif dead@[1] then
  call('UNLINK', KEYS[@1])
end
do
  local n = min(granted, 9007199254740992 - held@) -- only Charge reaches this
  local finish = dated@ + ARGV[@2] * 1000
  held@, first@, text@ = held@ + n, min(first@ or finish, finish), format('%s %d %d', epoch, finish, n)
  call('ZADD', KEYS[@1], -1 - dated@, 'clock', -held@, 'held', finish, text@)
  call('PEXPIRE', KEYS[@1], format('%d', max(call('PTTL', KEYS[@1]), ARGV[@2])))
end

--@ release  in: at@ clock@ dead@ first@ held@ n receipts rest@
-- Returns the permits whose lease ends first, or with a receipt those of its grant.
do
  local receipt, due, found, own = receipts[@], n, {}, nil
  if receipt then
    local head, finish = match(receipt, '^(%w+ (%d+) )%d+$')
    if first@ and finish and finish + 0 > at@ then
      own, found = head, call('ZRANGEBYSCORE', KEYS[@1], finish, finish, 'WITHSCORES', 'LIMIT', 0, 256)
    end
  elseif first@ then
    found = call('ZRANGEBYSCORE', KEYS[@1], format('(%d', at@), '+inf', 'WITHSCORES', 'LIMIT', 0, min(n, 2048))
  end
  for i = 1, #found, 2 do
    local head, count = match(found[i], '^(%w+ %d+ )(%d+)$')
    if not head then
      return {3, @, found[i]}
    elseif due > 0 and (not own or head == own) then
      local back = min(due, count)
      due, held@ = due - back, held@ - back
      dead@[#dead@ + 1] = found[i]
      dead@[#dead@ + 1] = found[i + 1]
      if back < count + 0 then
        rest@ = {found[i + 1], head .. format('%d', count - back)}
      end
    end
  end
  if due < n and held@ > 0 then
    --@include drop
  elseif due < n then
    call('UNLINK', KEYS[@1])
  end
end

--@ report  in: first@ held@ text@  out: report@
-- The held permits, and the times until the last and until the next lease ends.
local report@ = {text@, held@, 0, 0}
if held@ > 0 then
  local last = call('ZRANGE', KEYS[@1], -1, -1, 'WITHSCORES')[2] + 0
  report@[3], report@[4] = last - last % 1000 - now, first@ - first@ % 1000 - now
end

--@ hold  in: holds rival t waiters  out: holds since@
-- A place that is held for another Client is idle until that asks. So places are held in a tenth of the time.
local since@ = t + (rival and call('ZSCORE', waiters, 'held') or 0)
holds = since@ >= 250 or since@ <= 60

--@ next  in: first granted held held@ id missed most@ next report@ rival since@ t waiters  out: next
-- Nothing is known of when permits return. Of several Clients, the first in line asks more often: the others
-- leave it what they return. See askForHeld in inflight.go.
if (missed or 1) > most@ - held@ then
  report@[4] = rival and first[1] == id and granted == 0 and 20000 or 100000
  next = max(next, report@[4])
end
if held > 0 and since@ >= 250 then
  redis.pcall('ZADD', waiters, -t, 'held')
end
