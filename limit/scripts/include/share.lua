-- Lowers credit to the share of the Client. Each may be ahead of the one that got least by a part of lead and
-- of what is open. While that one is expected, the rest is held for it, as far as it and others that got less
-- want that. One that is overdue is forgotten. One that comes is behind the others, so that Clients which come
-- and go do not take turns from those that stay.
-- Needs: credit first free holds id lead rival t total. Sets: credit first held known open own rival slow unranked.
local open, own, held, slow, known, unranked = max(0, min(free, credit + 1)), nil, 0, 0, nil, 0
if rival then
  known = first[1] == id and first[2] or first[3] == id and first[4] or call('ZSCORE', waiters, id)
  for _ = 1, 16 do
    local least, members = floor(first[1] == rival and first[2] or first[4]), call('ZCARD', waiters)
    local clients = max(1, floor((members - 1) / 2))
    own = max(floor(known or least + (lead > 1 and ceil(lead / (clients + 1)) or 0)), least - 4 * lead - 8)
    unranked = members - clients
    local share = floor(least - own + ceil((lead + open) / (clients + (known and 0 or 1))))
    if share < min(total, open) then
      local behind, wanted = call('ZRANGEBYSCORE', waiters, 0, '(' .. own, 'WITHSCORES', 'LIMIT', 0, 8), 0
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
      held, slow = min(floor(due) + 1 - t, max(5, ceil(1250 / lead))), fmod(due, 1) * 2048000
      credit = min(credit, share - 1)
      break
    end
    if type(redis.pcall('ZREM', waiters, rival, rival .. '!')) ~= 'number' then
      break
    end
    first = call('ZRANGEBYSCORE', waiters, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 2)
    rival = first[1] ~= id and first[1] or first[3]
    if not rival then
      break
    end
  end
else
  own = floor(first[2] or 0)
end
