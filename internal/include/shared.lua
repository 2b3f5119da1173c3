-- Writes what the Client got and wants, and when its next call is due, as rivals.lua describes. It sets lag, the
-- milliseconds by which the Client is to ask later than the policies say. The more Clients got less, the longer: for
-- a permit that comes free, those that got least ask, and not all.
--
-- The numbers:
--   8796093022207   2^43 - 1, the largest whole part of a score beside a fraction of ten bits: a double has 53 bits.
--   1023, 1024      The fraction of "<id>": what the waiters want, in the call and after it, less what they got.
--   2048            The fraction of "<id>!".
--   10 and 250/lead Each Client that got less adds 10 ms to lag, or the time of a permit if that is shorter.
--   15, beyond 4    Each beyond the fourth adds up to 15 ms more.
--   250             The longest lag, and the time of lead permits.
--   5000            A queue asks again after five seconds at the latest, whatever the policies say.
--   8000            The set expires so many milliseconds after the last call. A call is due within 5000, the lag and
--                   a second or more by which it is late. So the set stays while a Client waits.
--
-- A Client whose waiters want no more is due at once: the next call of a rival removes it.
-- Needs: ahead clock granted held id known late lead next open own rest rival t total unranked waiters.
-- Sets: held lag.
own = min(8796093022207, own + granted)
local due, wants, lag = t, min(1023, total + rest - granted), 0
if granted < total and open > granted and held > 0 then
  due = t + held + late
else
  held = 0
  if wants > 0 then
    if rival and known and granted == 0 then
      lag = (tonumber(redis.pcall('ZRANK', waiters, id)) or 0) - unranked
    elseif rival then
      lag = (tonumber(redis.pcall('ZCOUNT', waiters, 0, '(' .. own)) or 0) - (known and granted > 0 and 1 or 0)
    end
    lag = max(0, min(lag * min(10, 250 / lead) + max(0, lag - 4) * min(15, 250 / lead), 250))
    due = t + min(5000, max(0, ceil(next / 1000))) + ceil(lag) + late
  end
end
due = due + late / 2048
if ahead then
  redis.pcall('ZADD', waiters, own + wants / 1024, id, -due, id .. '!', -ahead, clock)
else
  redis.pcall('ZADD', waiters, own + wants / 1024, id, -due, id .. '!')
end
redis.pcall('PEXPIRE', waiters, 8000)
