-- Lowers credit to the share of the Client, so that all Clients with waiters get the same number of permits in time.
--
-- Open is what is free for waiters. Lead is the permits of 250 ms at the slowest rate of the policies. Calls of Clients
-- do not come in turn, so one may be ahead of another by as much. Permit is the milliseconds of one at the fastest rate,
-- at most 250. The slowest may be a quota of a day that is not used up. Both come from limit/plan.go. If the rate is in
-- Redis, the script does.
--   1. A Client may take until it is ahead of the rival by its part of lead and of open: these divided by the
--      number of Clients.
--   2. It may take more if those that got less than it want less than is open.
--   3. What it may not take is held for the rival until the call of that is due, but not for longer than "5 and 100"
--      says. Then the Client asks again.
-- An absent Client that returns is ahead by the permits of a second and 8 more at most, since the scores may have begun
-- at 0 again. By less it would be forgiven a large request: while a Client has no other waiter, it is absent. A Client
-- without a score is new. It begins as if it had got its part of lead more than the rival. So Clients that come and go
-- get no more than those that stay.
--
-- The numbers:
--   4 leads and 8   A Client that got less than the rival makes up for the permits of a second and 8 more. Else it
--                   would take everything after a long pause. 8 is for slow rates, whose lead is 1. An absent one
--                   is ahead by as much.
--   8 Clients       A call reads what so many want of those that got less. If there are as many, they are taken to
--                   want all that is open. So is one that wants 1023 or more.
--   2048000         The fraction of "<id>!" in microseconds.
--   5 and 100       A hold lasts 5 ms or the time of five permits, whichever is longer. One of more permits lasts as
--                   long as these take, up to 100 ms. Otherwise a Client asks again and again while the rival waits
--                   for more than is free.
--
--   reach           0 or 1: whether those within a part of open above the Client also count as behind it. With 1,
--                   Clients whose few callers come back leave permits of a small log unused: see
--                   TestTransport_PoliciesOfThePage_AreAcceptedByProviders. With 0, one of four Clients of Redisson's
--                   layout takes most of each burst, and TestAcquire_ClientsWait_ShareEqually fails.
--
-- Needs: credit free holds id lead least permit reach rival t total waiters.
-- Sets: credit held known open own slow stays.
local known, open = tonumber(redis.pcall('ZSCORE', waiters, id)), max(0, min(free, credit + 1))
local stays = known and known < 1e14
local own, held, slow = stays and floor(known) or 0, 0, 0
if rival and (open > 0 or not stays) then
  local clients = (tonumber(redis.pcall('ZCOUNT', waiters, '0', '(549755813888')) or 1) + (stays and 0 or 1)
  if not stays then
    own = known and min(known - 1e14, least + 4 * lead + 8) or least + (lead > 1 and ceil(lead / clients) or 0)
  end
  own = max(own, least - 4 * lead - 8)
  local share, asked = least - own + ceil((lead + open) / clients), min(total, open)
  if share < asked then
    local behind = call('ZRANGEBYSCORE', waiters, '0', '(' .. own + ceil(reach * open / clients), 'WITHSCORES', 'LIMIT', '0', '8')
    local wanted = 0
    for i = 2, #behind, 2 do
      local wants = #behind == 16 and 1023 or 1023 - fmod(behind[i], 1) * 1024
      wanted = wanted + (wants == 1023 and open or behind[i - 1] ~= id and wants or 0)
    end
    share = max(share, open - wanted)
  end
  local due = share < asked and holds and tonumber(redis.pcall('ZSCORE', waiters, rival .. '!')) or 0
  if due >= t then
    held = min(floor(due) + 1 - t, max(5, ceil(5 * permit), min(100, ceil((asked - share) * permit))))
    slow = fmod(due, 1) * 2048000
    credit = min(credit, share - 1)
  end
end
