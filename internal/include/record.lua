-- Writes what the Client got and wants, and when its next call is due, as rivals.lua describes. It sets lag, the
-- milliseconds by which the Client is to ask later than the policies say. Before is the number of Clients that come
-- before it. Each of them takes one permit at least. So for a permit that comes free, those ask whose turn it is, and
-- not all.
--
-- Permits of a window come free together, batch of them. Need is what those before the Client take, less the permits
-- that the window still has. Each takes as much as this Client wants; with reach 1 it takes one and goes behind others.
-- If need is not below 0, the turn of the Client is in a later window, and it asks in that one. Need divided by batch
-- is the number of windows between, and held the time until the next window. Eight Clients are left out of the count,
-- since some leave. Beside a policy that drips, permits come free one after another.
--
-- A Client whose waiters want no more is due at once: for the next call of a rival it is absent. But callers that are
-- served come back, and take more of a window that is large for them. It is, if a second has 16 permits or more for
-- each one that they want. If permits are free then, their Client is expected for the time of a call. Its waiters are
-- taken to want as much in each call, and no less than before. Otherwise a near Client takes the rest of the window
-- while the callers of another are on their way back.
--
-- If the window has nothing left, these callers do not ask before it ends. So until then their Client is no absent one:
-- else a nearer Client would take all of each window that its waiters and those of this one fill.
--
-- A Client that is new and behind another counts as absent until its next call. Otherwise those that come and leave
-- unserved stand before others, who wait for a later window while permits are free. If permits come free one after
-- another, this costs some of the pace, and only those behind eight others are absent.
--
-- The numbers:
--   549755813887    2^39 - 1, the largest count of permits.
--   1023, 1024      The fraction of "<id>", by what the waiters want, in the call and after it, less what they got.
--   2048            The fraction of "<id>!".
--   15, 10 beyond 4 Each Client before it adds 15 ms to lag, and each beyond the fourth up to 10 ms more. A permit's time
--                   is the most for each. In a window, all but the first ask up to 10 ms later. Then the first gets
--                   what it wants, also on a slower link. Those up to the twentieth ask up to a millisecond one after
--                   another. Else most come before their turn, and ask again.
--   250             The longest lag without windows.
--   5000            A queue asks again after five seconds at the latest, whatever the policies say.
--   8000            The set expires so many milliseconds after the last call. A call is due within 5000 and a second or
--                   more by which it is late. So the set stays while a Client waits.
--
-- Needs: ahead batch clock drips ends granted held id known late lead next open own permit reach rest rival stays t total
-- waiters window. Sets: held lag own.
own = min(549755813887, own + granted)
local wants, due, lag = total + rest - granted, t, 0
local large = window > 0 and lead >= 4 * (total + rest)
local comeBack = rival and large and wants == 0 and open > granted
wants = comeBack and total or wants
if large and wants > 0 then
  wants = max(ceil(wants * max(1, window / late)), stays and 1023 - fmod(known, 1) * 1024 or 0)
end
local score = own + (1023 - min(1023, wants)) / 1024
if score ~= known then
  redis.pcall('ZADD', waiters, score, id)
end
local before = rival and tonumber(redis.pcall('ZRANK', waiters, id)) or 0
local left, need = max(0, open - granted), -1
if batch and not drips then
  need = max(0, before - 8) * (reach > 0 and 1 or min(batch, total + rest)) - left
  lag = max(0, floor(need / batch)) * window + min(before, 1) * min(10, permit) + min(before, 20) * min(1, permit / 25)
else
  lag = min(before * min(15, permit) + max(0, before - 4) * min(10, permit), 250)
end
if left == 0 then
  held = 0
elseif need >= 0 then
  held = ends > 0 and ends or next > 0 and ceil(next / 1000) or window
elseif held > 0 or wants == 0 then
  held, lag = granted < total and held or 0, 0
end
if held > 0 then
  due = t + min(5000, held + ceil(lag)) + late
elseif comeBack then
  due = t + late
elseif rival and wants == 0 and left == 0 and ends > 0 then
  due = t + min(5000, ends) + late
elseif wants > 0 then
  due = t + min(5000, max(0, ceil(next / 1000)) + ceil(lag)) + late
end
due = due + late / 2048
if not known and before > (batch and not drips and 0 or 8) then -- a new Client
  redis.pcall('ZADD', waiters, 1e14 + own, id)
  due = due + 1e13
  -- Those that come before it may never be overdue.
  --@include gone
end
if ahead then
  redis.pcall('ZADD', waiters, due, id .. '!', ahead, clock)
else
  redis.pcall('ZADD', waiters, due, id .. '!')
end
redis.pcall('PEXPIRE', waiters, '8000')
