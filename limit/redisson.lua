-- A limiter of Redisson's layout that is joined with others. KEYS: its five keys. ARGV: the
-- beginning of the member of a grant; the cursor of the previous call, or ''.

--@ limiter  in: interval keepAlive more permitsKey rate spent value  out: spent value
-- The end of the function redisson. Before it are the parts limiter, value, window and reclaim of
-- the root package's script.lua. They return their reply, or read the limiter into locals. Here a
-- closure has these locals, since a script may have several such limiters.
local limiter = {free = value, most = rate, more = more}
function limiter.settle(granted)
  local total, reply, grantedAt = -1, false, now
  if granted > 0 then
    value, spent = value - granted, string.format('%d', granted)
  end
--@include settled
end
function limiter.report(denied)
  local newest = call('ZRANGE', permitsKey, '-1', '-1', 'WITHSCORES')[2]
  local reset = newest and math.min(math.max(0, tonumber(newest) + interval - now), 9007199254740992) or 0
  local report = {now, rate, math.min(interval, 9007199254740992), value, reset, keepAlive + 0}
  if denied then
    local reply, need = report, rate + 1 - value
--@include waits
  end
  return report
end
return limiter

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
local failed = (not answers or match(answers, '[gnp]')) and limiter@.settle(granted)
if failed then
  return failed
end

--@ report  in: answers limiter@  out: report@
local report@ = limiter@.report(answers)
