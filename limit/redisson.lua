-- A limiter of Redisson's layout that is joined with others. KEYS: its five keys. ARGV: a member of 0
-- permits, which gets those of the grant; the cursor of the previous call, or ''.

--@ function  out: redisson
-- Reads a limiter into the locals of a closure, since a script may have several such limiters. The
-- includes are those of the root package's scripts. They return their reply, or go on.
local function redisson(KEYS, ARGV)
  --@include names
  local hint, ended
  --@include limiter
  --@include value
  --@include window
  --@include reclaim
  --@include cap
  local limiter = {free = value, most = rate, more = more, interval = interval}
  function limiter.settle(granted)
    local total, reply, grantedAt = -1, false, now
    if granted > 0 then
      value, spent = value - granted, string.format('%d', granted)
    end
    --@include store
    --@include grant
    --@include checked
    --@include expiry
    return reply
  end
  function limiter.report(want)
    local newest = call('ZRANGE', permitsKey, '-1', '-1', 'WITHSCORES')[2]
    local reset = newest and math.min(math.max(0, tonumber(newest) + interval - now), 9007199254740992) or 0
    local report = {now, rate, math.min(interval, 9007199254740992), value, reset, keepAlive + 0}
    if want > value then
      local reply, need = report, rate + 1 - value
      --@include waits
    end
    return report
  end
  return limiter
end

--@ read  in: redisson  out: free@ limiter@ most@ text@
-- The text is the time of a grant: a refund finds it by its score.
local text@ = format('%d', millis)
local limiter@ = redisson({KEYS[@1], KEYS[@2], KEYS[@3], KEYS[@4], KEYS[@5]},
  {text@, ARGV[@1], nil, nil, nil, ARGV[@2]})
if limiter@[1] == 1 then
  return {1, format('%d', now), @, limiter@[2]}
elseif limiter@[1] then
  table.insert(limiter@, 2, @)
  return limiter@
end
local free@, most@ = limiter@.free, limiter@.most

--@ more  in: free limiter@ total
if total > free and limiter@.more then
  return limiter@.settle(0) or {1, format('%d', now)}
end

--@ settle  in: answers granted limiter@
-- Requests for more permits than can ever be granted change nothing.
do
  local failed = (not answers or match(answers, '[gnp]')) and limiter@.settle(granted)
  if failed then
    return failed
  end
end

--@ drain  in: leave limiter@
-- One grant holds at most 4294967295 permits.
do
  local granted = limiter@.more and 0 or max(0, min(4294967295, limiter@.free - leave))
  local failed = (limiter@.more or granted > 0) and limiter@.settle(granted)
  if failed then
    return failed
  elseif limiter@.more then
    return {1, format('%d', now)}
  end
end

--@ report  in: limiter@ want  out: report@
local report@ = limiter@.report(want)

--@ lead  in: lead limiter@ most@ permit  out: lead permit
lead, permit = max(1, min(lead, floor(most@ * 250 / limiter@.interval))), min(permit, limiter@.interval / most@)

--@ next  in: batch limiter@ missed most@ next report@ window  out: batch next window
if not batch or most@ < batch then
  batch, window = most@, limiter@.interval + 0
end
do
  local need, i = (missed or 1) - report@[4], 7
  while need > 0 and report@[i] do
    next, need, i = max(next, report@[i] * 1000), need - math.abs(report@[i + 1]), i + 2
  end
end
