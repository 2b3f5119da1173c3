-- Writes what the Client got and wants, and when its next call is due, as rivals.lua describes. It sets lag, the
-- milliseconds by which the Client is to ask later than the policies say. Before is the number of Clients that come
-- before it, since they got less, or as much and asked earlier. Each of them takes one permit at least. So for a permit
-- that comes free, those ask whose turn it is, and not all.
--
-- Permits of a window come free together, batch of them. A Client whose turn is in a later window does not ask in this
-- one. A quarter more than batch ask, for those that have left.
--
-- Callers that are served come back, and take more of a window that is large for them. It is, if a second has 16
-- permits or more for each one that they want. If permits are free then, their Client is expected for the time of a
-- call. Its waiters are taken to want as much in each call, and no less than before. Otherwise a near Client takes the
-- rest of the window while the callers of another are on their way back.
--
-- The numbers:
--   8796093022207   2^43 - 1, the largest whole part of a score beside a fraction of ten bits: a double has 53 bits.
--   1023, 1024      The fraction of "<id>": what the waiters want, in the call and after it, less what they got.
--   2048            The fraction of "<id>!".
--   10 and 250/lead Each Client before it adds 10 ms to lag, or the time of a permit if that is shorter. In a window,
--                   all but the first ask so much later: then the first gets what it wants, also on a slower link.
--   15, beyond 4    Each beyond the fourth adds up to 15 ms more.
--   250             The longest lag without windows, and the time of lead permits.
--   5000            A queue asks again after five seconds at the latest, whatever the policies say.
--   8000            The set expires so many milliseconds after the last call. A call is due within 5000 and a second or
--                   more by which it is late. So the set stays while a Client waits.
--
-- Else a Client whose waiters want no more is due at once: for the next call of a rival it is absent.
-- Needs: ahead batch clients clock granted held id known late lead next open own rest rival t total waiters window.
-- Sets: held lag.
own = min(8796093022207, own + granted)
local due, wants, lag, before = t, total + rest - granted, 0, 0
local large = window > 0 and lead >= 4 * (total + rest)
if rival and known and granted == 0 then
  before = max(0, clients - 1 - (tonumber(redis.pcall('ZREVRANK', waiters, id)) or 0))
elseif rival then
  before = max(0, (tonumber(redis.pcall('ZCOUNT', waiters, 0, '(' .. own + 1)) or 0) - (known and 1 or 0))
end
if granted == total or open <= granted then
  held = 0
end
if held > 0 then
  due = t + held + late
elseif wants == 0 and rival and large and open > granted then
  wants, due = total, t + late
elseif wants > 0 then
  if batch then
    lag = floor(before / (batch * 1.25)) * window + min(before, 1) * min(10, 250 / lead)
  else
    lag = min(before * min(10, 250 / lead) + max(0, before - 4) * min(15, 250 / lead), 250)
  end
  due = t + min(5000, max(0, ceil(next / 1000)) + ceil(lag)) + late
end
due = due + late / 2048
if wants > 0 and large then
  wants = max(ceil(wants * max(1, window / late)), fmod(known or 0, 1) * 1024)
end
wants = min(1023, wants)
if ahead then
  redis.pcall('ZADD', waiters, own + wants / 1024, id, -due, id .. '!', -ahead, clock)
else
  redis.pcall('ZADD', waiters, own + wants / 1024, id, -due, id .. '!')
end
redis.pcall('PEXPIRE', waiters, 8000)
