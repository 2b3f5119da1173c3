-- SlidingLog. ARGV: permits, interval in milliseconds. The key holds a list. Its head is "<sum> <time, ms> <count> <ahead, ms>":
-- the permits of all entries, the newest entry, and by how much the clock was seen further on than that. Behind it stand the
-- other entries, "<time, ms> <count>", the oldest first, each time once.

--@ read
-- Sets at@, the time; drop@, how many of the oldest entries have left; more@, others may have, too. Without count@ nothing is
-- taken. The first look is at a few entries: mostly as many have left as were logged since the call before.
local most@, at@, sum@, time@, count@, drop@, more@ = tonumber(ARGV[@1]), millis, 0, 0, 0, 0, false
local text@
do
  local found = call('LRANGE', KEYS[@], 0, 7)
  text@ = found[1]
  if text@ then
    local sum, time, count, ahead = match(text@, '^(%d+) (%d+) (%d+) (%d+)$')
    if not sum or #text@ > 99 or time + ahead > 9007199254740992 then
      return {3, @, text@}
    end
    at@ = max(millis, time + ahead)
    local limit = at@ - ARGV[@2]
    if tonumber(time) > limit then
      sum@, time@, count@ = tonumber(sum), tonumber(time), tonumber(count)
      local i = 2
      while found[i] do
        local time, count = match(found[i], '^(%d+) (%d+)$')
        if not time then
          return {3, @, found[i]}
        end
        if tonumber(time) > limit then
          break
        end
        sum@, drop@, i = sum@ - count, drop@ + 1, i + 1
        if drop@ == 7 then
          found, i = call('LRANGE', KEYS[@], 8, 256), 1
        end
      end
      sum@, more@ = max(sum@, count@), drop@ == 256
    end
  end
end
local free@ = most@ - sum@

--@ pages
if more@ then
  --@head
  return {1, format('%d', now)}
end

--@ more
-- Who wants to know no more than whether, and is granted, leaves the rest to the calls behind it.
if total > free or letters ~= '' then
  --@pages
end

--@ head
-- Drops what has left: the last of it makes room for the new head.
if drop@ > 0 then
  call('LTRIM', KEYS[@], drop@, -1)
  drop@ = 0
end
text@ = format('%.0f %d %.0f %d', sum@, time@, count@, at@ - time@)
call('LSET', KEYS[@], 0, text@)

--@ take
sum@ = sum@ + granted
if count@ > 0 then
  if time@ < at@ then
    call('RPUSH', KEYS[@], format('%d %.0f', time@, count@))
    call('PEXPIRE', KEYS[@], at@ + ARGV[@2] - millis)
    time@, count@ = at@, 0
  end
  count@ = count@ + granted
  --@head
else
  if text@ then
    call('UNLINK', KEYS[@])
  end
  time@, count@ = at@, granted
  text@ = format('%.0f %d %.0f 0', sum@, time@, count@)
  call('RPUSH', KEYS[@], text@)
  call('PEXPIRE', KEYS[@], at@ + ARGV[@2] - millis)
end

--@ late
late = late or at@ > millis

--@ release
-- The oldest permits, or those of the entry of a time.
if dated and count@ > 0 then
  local moment = floor(dated / 1000)
  if moment == time@ and n < count@ then
    sum@, count@ = sum@ - n, count@ - n
    --@head
  elseif moment == time@ and sum@ > count@ then
    -- The entry before it becomes the newest.
    local time, count = match(call('LINDEX', KEYS[@], -1), '^(%d+) (%d+)$')
    if time then
      sum@, time@, count@ = sum@ - count@, tonumber(time), tonumber(count)
      call('RPOP', KEYS[@])
      call('PEXPIRE', KEYS[@], time@ + ARGV[@2] - millis)
      --@head
    end
  elseif moment == time@ then
    call('UNLINK', KEYS[@])
  elseif moment < time@ and moment > at@ - ARGV[@2] then
    local found = call('LRANGE', KEYS[@], -256, -1)
    for i = #found, 1, -1 do
      local time, count = match(found[i], '^(%d+) (%d+)$')
      if not time or tonumber(time) < moment then
        break
      end
      if tonumber(time) == moment then
        local rest = count - n
        if rest > 0 then
          call('LSET', KEYS[@], i - #found - 1, format('%d %.0f', time, rest))
          sum@ = sum@ - n
        else
          call('LREM', KEYS[@], -1, found[i])
          sum@ = sum@ - count
        end
        --@head
        break
      end
    end
  end
elseif count@ > 0 and n >= sum@ then
  call('UNLINK', KEYS[@])
elseif count@ > 0 then
  local found = call('LRANGE', KEYS[@], drop@ + 1, drop@ + 256)
  local rest, cut = n, nil
  for i = 1, #found do
    local time, count = match(found[i], '^(%d+) (%d+)$')
    if not time then
      break
    end
    if tonumber(count) > rest then
      cut, rest = format('%d %.0f', time, count - rest), 0
      break
    end
    rest, drop@ = rest - count, drop@ + 1
  end
  sum@ = sum@ - n + rest
  if rest > 0 and #found == 256 then
    rests = rests or {4}
    rests[#rests + 1] = @
    rests[#rests + 1] = format('%d', rest)
  elseif rest > 0 then
    sum@, count@ = sum@ - rest, count@ - rest
  end
  --@head
  if cut then
    call('LSET', KEYS[@], 1, cut)
  end
end

--@ tell
-- The permits that are taken, when the last of them come back, and for as many as are wanted, at most a page, when and how
-- many come back.
local told@ = {text@ or '', min(sum@, 9007199254740992), 0}
if sum@ > 0 then
  told@[3] = (time@ + ARGV[@2]) * 1000 - now
  local need, found, i = want - most@ + sum@, {}, 1
  if need > 0 then
    found = call('LRANGE', KEYS[@], drop@ + 1, drop@ + 8)
  end
  while need > 0 and found[i] do
    local time, count = match(found[i], '^(%d+) (%d+)$')
    if not time then
      break
    end
    told@[#told@ + 1] = (time + ARGV[@2]) * 1000 - now
    told@[#told@ + 1] = min(tonumber(count), 9007199254740992)
    need, i = need - count, i + 1
    if i == 9 and #told@ == 19 then
      found, i = call('LRANGE', KEYS[@], drop@ + 9, drop@ + 256), 1
    end
  end
  if need > 0 and not found[i] and #told@ < 515 then
    told@[#told@ + 1] = told@[3]
    told@[#told@ + 1] = min(count@, 9007199254740992)
  end
end
