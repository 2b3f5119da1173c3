-- SlidingLog. ARGV: permits, interval in milliseconds. The key is a list of entries "<epoch> <time,
-- ms> <ahead, ms> <count> <total>". Each millisecond with grants has an entry, the oldest first.
-- Total is the number of permits of all entries up to this one, modulo 2^53. Ahead, of the newest
-- entry, is how far after its time the latest clock was.
--
-- The number of taken permits is the difference of two totals, so no sum has to be updated. Each
-- write changes one entry or one end of the list. If a script is stopped, the log is correct, or it
-- counts too many permits until those entries expire.
--
-- TTL: an interval from the last grant. If PEXPIRE is refused, the grant fails. So each successful
-- grant has renewed the TTL.

--@ read  out: at@ base@ count@ epoch@ first@ free@ length@ most@ sum@ text@ time@ total@
-- Sets at@, the time, and length@, the number of entries. Sets first@, the index of the oldest
-- entry in the interval, and base@, the total before it. Sets time@, count@ and total@ of the
-- newest entry. If epoch@ is false, no permit is taken.
local most@, at@, first@, base@, length@, sum@ = tonumber(ARGV[@1]), millis, 0, 0, 0, 0
local time@, count@, total@, epoch@, text@ = 0, 0, 0, false, ''
do
  local found = call('LRANGE', KEYS[@1], 0, 7)
  length@, text@ = #found, found[#found] or ''
  if length@ == 8 then
    length@, text@ = call('LLEN', KEYS[@1]), call('LINDEX', KEYS[@1], -1)
  end
  local word, time, ahead, count, total = match(text@, '^(%w+) (%d+) (%d+) (%d+) (%d+)$')
  if found[1] and (not word or #text@ > 99 or time + ahead > 9007199254740992
      or max(count, total) > 9007199254740992) then
    return {3, @, text@}
  end
  if word then
    at@ = max(millis, time + ahead)
  end
  local limit = at@ - ARGV[@2]
  if word and tonumber(time) > limit then
    epoch@, time@, count@, total@ = word, tonumber(time), tonumber(count), tonumber(total)
    -- The entry at high is in the interval. The oldest one in it is usually among the first
    -- entries. Otherwise a binary search finds it.
    local high, oldest = length@ - 1, text@
    while first@ < high do
      local index = first@ < 7 and first@ or floor((first@ + high) / 2)
      local entry = index < 8 and found[index + 1] or call('LINDEX', KEYS[@1], index)
      local other = match(entry, '^%w+ (%d+) %d+ %d+ %d+$')
      if not other then
        return {3, @, entry}
      elseif tonumber(other) > limit then
        high, oldest = index, entry
      else
        first@ = index + 1
      end
    end
    count, total = match(oldest, '(%d+) (%d+)$')
    base@ = total - count
    sum@ = total@ - base@
    if sum@ < 0 or sum@ == 0 and count@ > 0 then
      sum@ = sum@ + 9007199254740992
    end
  end
end
local free@ = most@ - sum@

--@ take  in: at@ count@ epoch epoch@ first@ granted sum@ text@ time@ total@  out: count@ epoch@ first@ sum@
--+ text@ time@ total@
do
  local n = min(granted, 9007199254740992 - sum@) -- only Charge reaches this
  sum@, total@ = sum@ + n, total@ - (9007199254740992 - n)
  if total@ < 0 then
    total@ = total@ + 9007199254740992
  end
  if epoch@ and time@ == at@ then
    count@ = count@ + n
    text@ = format('%s %d 0 %d %d', epoch@, time@, count@, total@)
    call('LSET', KEYS[@1], -1, text@)
  else
    if not epoch@ then
      epoch@ = epoch
      if text@ ~= '' then
        call('UNLINK', KEYS[@1])
      end
    end
    time@, count@ = at@, n
    text@ = format('%s %d 0 %d %d', epoch@, time@, count@, total@)
    call('RPUSH', KEYS[@1], text@)
  end
  call('PEXPIRE', KEYS[@1], ARGV[@2])
  if first@ > 0 then
    call('LTRIM', KEYS[@1], first@, -1)
    first@ = 0
  end
end

--@ release  in: at@ base@ count@ epoch@ first@ length@ receipts n sum@ time@ total@
if receipts[@] then
  --@include refund
elseif sum@ > 0 then
  --@include oldest
end

--@ oldest  in: at@ base@ count@ epoch@ first@ length@ n sum@ time@ total@
-- Returns the oldest permits. The newest entry stores the latest time before entries that have expired
-- by it are removed.
if n >= sum@ then
  call('UNLINK', KEYS[@1])
else
  -- Looks for the oldest entry that keeps permits.
  local low, high = first@, length@ - 1
  local oldest = format('%s %d %d %d %d', epoch@, time@, at@ - time@, sum@ - n, total@)
  while low < high do
    local index = floor((low + high) / 2)
    local entry = call('LINDEX', KEYS[@1], index)
    local start, total = match(entry, '^(%w+ %d+ %d+ )%d+ (%d+)$')
    if not start then
      return {3, @, entry}
    end
    local upto = total - base@
    if upto < 0 then
      upto = upto + 9007199254740992
    end
    if upto > n then
      high, oldest = index, start .. format('%d %s', upto - n, total)
    else
      low = index + 1
    end
  end
  if low < length@ - 1 then
    call('LSET', KEYS[@1], -1, format('%s %d %d %d %d', epoch@, time@, at@ - time@, count@, total@))
  end
  if low > 0 then
    call('LTRIM', KEYS[@1], low, -1)
  end
  call('LSET', KEYS[@1], 0, oldest)
end

--@ refund  in: at@ epoch@ n receipts sum@
-- Returns permits of the entry of a receipt, if that is among the newest 256. The totals from its entry
-- on decrease, that of the newest last. If older entries alone keep permits, one empty entry stays: the
-- newest has the total.
local word, dated = match(receipts[@], '^(%w+) (%d+) ')
local entries, own, back, last = {}, nil, 0, 1
if word and word == epoch@ and dated + 0 > at@ - ARGV[@2] then
  entries = call('LRANGE', KEYS[@1], -256, -1)
end
for i = 1, #entries do
  local time, count, total = match(entries[i], '^%w+ (%d+) %d+ (%d+) (%d+)$')
  if not time then
    return {3, @, entries[i]}
  end
  if time == dated then
    own, back = i, min(n, count)
    count = count - back
  end
  total = total - back
  if total < 0 then
    total = total + 9007199254740992
  end
  entries[i] = {time, count, total}
  if count + 0 > 0 then
    last = i
  end
end
if back > 0 and back == sum@ then
  call('UNLINK', KEYS[@1])
elseif back > 0 then
  for i = min(own, last), #entries do
    local ahead = i == last and at@ - entries[i][1] or 0
    call('LSET', KEYS[@1], i - #entries - 1,
      format('%s %s %d %d %d', epoch@, entries[i][1], ahead, entries[i][2], entries[i][3]))
  end
  if last < #entries then -- empty entries
    call('LTRIM', KEYS[@1], 0, last - #entries - 1)
  end
end

--@ report  in: first@ most@ sum@ text@ time@ want  out: report@
-- The taken permits, and the time until the last of them return. If more are wanted than are free,
-- pairs follow, at most a page: the time until permits return, and their number.
local report@ = {text@, sum@, 0}
if sum@ > 0 then
  report@[3] = (time@ + ARGV[@2]) * 1000 - now
  local need, found, i = want - most@ + sum@, {}, 1
  if need > 0 then
    found = call('LRANGE', KEYS[@1], first@, first@ + 7)
  end
  while need > 0 and found[i] do
    local time, count = match(found[i], '^%w+ (%d+) %d+ (%d+) %d+$')
    if not time then
      break
    end
    report@[#report@ + 1] = (time + ARGV[@2]) * 1000 - now
    report@[#report@ + 1] = tonumber(count)
    need, i = need - count, i + 1
    if i == 9 and #report@ == 19 then
      found, i = call('LRANGE', KEYS[@1], first@ + 8, first@ + 255), 1
    end
  end
end

--@ next  in: batch missed most@ next report@ sum@ window  out: batch next window
do
  local need, i = (missed or 1) - most@ + sum@, 4
  while need > 0 and report@[i] do
    next, need, i = max(next, report@[i]), need - report@[i + 1], i + 2
  end
  if not batch or most@ < batch then
    batch, window = most@, ARGV[@2] + 0
  end
end
