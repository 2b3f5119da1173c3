-- Lowers credit to the share of the Client, so that all Clients with waiters get the same number of permits in time.
--
-- Open is what is free for waiters. Least is what the rival got that got least. Lead is the permits of 250 ms, which
-- limit/plan.go computes: calls of Clients do not come in turn, so one may be ahead of another by as much.
--   1. A Client may take until it is ahead of the rival by its part of lead and of open: these divided by the
--      number of Clients.
--   2. It may take more if those that got less than it want less than is open. What they want is the
--      fraction of their scores.
--   3. Otherwise, if the rival is expected, the rest is held for it until its call is due.
--   4. If the rival is overdue, it is absent, and the next one is the rival. It keeps its score for three seconds: a
--      Client whose calls are late, beside much load, makes up for it.
--
-- While there are absent Clients, one without a rival counts what it gets for them: others is true. An absent Client
-- that returns is ahead by lead at most, since the scores may have begun at 0 again. A Client without a score is new.
-- It begins as if it had got its part of lead more than the rival. So Clients that come and go get no more than those
-- that stay.
--
-- The numbers:
--   4 leads and 8   A Client that got less than the rival makes up for the permits of a second and 8 more. Else it
--                   would take everything after a long pause. 8 is for slow rates, whose lead is 1.
--   16 rounds       A call marks at most 16 Clients that are overdue, which bounds the time of a call.
--   8 Clients       A call reads what so many want of those that got less. If there are as many, they are taken to
--                   want all that is open.
--   3000, 32        A call that finds absent Clients removes those that are overdue for three seconds, at most 32.
--   -1e14           The scores of absent Clients: see rivals.lua.
--   1023            That many or more: the Client is taken to want all that is open.
--   2048000         The fraction of "<id>!" in microseconds.
--   5, 1250 and 100 A hold lasts 5 ms or the time of five permits, whichever is longer. Lead permits take 250 ms. A
--                   hold of more permits lasts as long as these take, up to 100 ms. Otherwise a Client asks again
--                   and again while the rival waits for more than is free.
--
--   reach           0 or 1: whether those within a part of open above the Client also count as behind it. With 1,
--                   Clients whose few callers come back leave permits of a small log unused: see
--                   TestTransport_PoliciesOfThePage_AreAcceptedByProviders. With 0, one of four Clients of Redisson's
--                   layout takes most of each burst, and TestAcquire_ClientsWait_ShareEqually fails.
--
-- Needs: credit first free holds id lead others reach rival t total waiters.
-- Sets: clients credit first held known open others own rival slow.
local open, own, held, slow, known, clients, marked = max(0, min(free, credit + 1)), nil, 0, 0, nil, 1, false
if rival then
  known = first[1] == id and first[2] or first[3] == id and first[4] or call('ZSCORE', waiters, id)
  local absent = known and known + 0 < 0 and -1e14 - known
  for _ = 1, 16 do
    local least = floor(first[1] == rival and first[2] or first[4])
    clients = call('ZCOUNT', waiters, 0, '+inf') + ((absent or not known) and 1 or 0)
    own = absent and min(absent, least + lead) or floor(known or least + (lead > 1 and ceil(lead / clients) or 0))
    own = max(own, least - 4 * lead - 8)
    local share = floor(least - own + ceil((lead + open) / clients))
    if share < min(total, open) then
      local behind = call('ZRANGEBYSCORE', waiters, 0, '(' .. own + ceil(reach * open / clients), 'WITHSCORES', 'LIMIT', 0, 8)
      local wanted = 0
      for i = 2, #behind, 2 do
        local wants = #behind == 16 and 1023 or fmod(behind[i], 1) * 1024
        wanted = wanted + (wants == 1023 and open or behind[i - 1] ~= id and wants or 0)
      end
      share = max(share, open - wanted)
    end
    if share >= min(total, open) then
      break
    end
    local due = -(call('ZSCORE', waiters, rival .. '!') or 0)
    if due >= t then
      if not holds then
        break
      end
      local withheld = min(total, open) - share
      held = min(floor(due) + 1 - t, max(5, ceil(1250 / lead), min(100, ceil(withheld * 250 / lead))))
      slow = fmod(due, 1) * 2048000
      credit = min(credit, share - 1)
      break
    end
    if type(redis.pcall('ZADD', waiters, -1e14 - least, rival)) ~= 'number' then
      break
    end
    marked, first = true, call('ZRANGEBYSCORE', waiters, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 2)
    rival = first[1] ~= id and first[1] or first[3]
    if not rival then
      break
    end
  end
  known = not absent and known
else
  own = floor(first[2] or 0)
end
if marked or not rival and (tonumber(redis.pcall('ZCOUNT', waiters, -9e14, -1e14)) or 0) > 0 then
  others = true
  local gone = call('ZRANGEBYSCORE', waiters, '(' .. 3000 - t, '(0', 'LIMIT', 0, 32)
  for i = 1, #gone do
    call('ZREM', waiters, gone[i], string.sub(gone[i], 1, -2))
  end
end
