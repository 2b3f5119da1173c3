-- Counts what the Client got, and when its next call is due. The more other Clients got less, the later
-- it is to ask: else all of them would ask for each permit.
-- Needs: ahead clock granted held id known late lead missed next open own rest rival t total unranked. Sets: held lag.
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
