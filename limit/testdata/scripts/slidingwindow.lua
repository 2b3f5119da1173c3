---- acquire
local call, floor, ceil, max, min, fmod = redis.call, math.floor, math.ceil, math.max, math.min, math.fmod
local match, format, tonumber = string.match, string.format, tonumber
local KEYS, ARGV, now = KEYS, ARGV, ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
now = max(0, now)
local millis, backdate = floor(now / 1000), nil -- only acquire has waiters
backdate = tonumber(ARGV[6 + 3] or '')
local most1, cell1, sum1, newest1, count1, older1 = tonumber(ARGV[4]), floor(millis / ARGV[5]), 0, 0, 0, ''
local from1, gone1, epoch1, text1 = 1, 0, false, call('GET', KEYS[1]) or ''
if text1 ~= '' then
  local word, sum, newest, count, older = match(text1, '^(%w+) (%d+) (%d+) (%d+)([ %d:]*)$')
  if not word or #sum > 16 or #newest > 16 or #count > 16 or (newest + ARGV[6] + 1) * ARGV[5] > 9007199254740992 then
    return {3, 1, text1}
  end
  cell1 = max(cell1, newest)
  local first = cell1 - ARGV[6]
  if newest + 0 >= first then
    epoch1, sum1, newest1, count1, older1 = word, tonumber(sum), tonumber(newest), tonumber(count), older
    while from1 <= #older do
      local cell, permits, behind = match(older, '^ (%d+):(%d+)()', from1)
      if not cell or #permits > 16 then
        return {3, 1, text1}
      elseif tonumber(cell) >= first then
        break
      end
      gone1, from1 = gone1 + permits, behind
    end
    sum1 = max(sum1 - gone1, count1)
  end
end
local free1 = most1 - sum1
local free, most, credit = min(free1), min(most1), 9007199254740992
local runs, flags = ARGV[6 + 1] or '', ARGV[6 + 2] or ''
local total, epoch, granted, answers, above = ARGV[2] + 0, ARGV[3], 0, nil, false
local ordered = flags == 'do'
local want = ordered and most or 0
if total <= free and (total <= credit or runs == '' and credit >= 0) then
  granted = total
elseif runs ~= '' or total > most then
  if runs == '' then
    runs = ARGV[2] .. '*1'
  end
  answers = {}
  local closed, part = false, ''
  for upTo, text, times in string.gmatch(runs, '(~?)(%d+)%*(%d+)') do
    local n, got = tonumber(text), 0
    times = tonumber(times)
    if n > most and upTo == '' then
      answers[#answers + 1] = string.rep('x', times)
      above = true
    else
      if not closed and n <= free - granted and granted <= credit then
        got = math.min(times, math.floor((free - granted) / n), math.floor((credit - granted) / n) + 1)
        granted = granted + got * n
        answers[#answers + 1] = string.rep('g', got)
      end
      local rest = free - granted
      if upTo ~= '' and got < times and rest >= 1 and rest < n and granted <= credit then
        answers[#answers + 1], part, got, granted = 'p', string.format(' %d', rest), got + 1, free
      end
      if got < times then
        answers[#answers + 1] = string.rep('n', times - got)
        want = math.max(want, upTo == '' and n or 1)
        closed = ordered
      end
    end
  end
  answers = table.concat(answers) .. part
end
local leased, span = nil, ARGV[6 + 5]
if span then
  leased, span = 0, tonumber(span)
  if granted == total and span > 0 then
    leased = max(0, min(tonumber(ARGV[6 + 4]), floor((free - granted) / 2), free - granted - ceil(most / 8)))
    granted = granted + leased
  end
end
if granted > 0 then
  do
    local n = min(granted, 9007199254740992 - sum1) -- only Charge reaches this
    if not epoch1 then
      epoch1, newest1 = epoch, cell1
    end
    older1, from1 = string.sub(older1, from1), 1
    if newest1 < cell1 then
      if count1 > 0 then
        older1 = older1 .. format(' %d:%d', newest1, count1)
      end
      newest1, count1 = cell1, 0
    end
    sum1, count1 = sum1 + n, count1 + n
    text1 = format('%s %d %d %d', epoch1, sum1, newest1, count1) .. older1
    call('SET', KEYS[1], text1, 'PX', (ARGV[6] + 1) * ARGV[5])
  end
end
if flags ~= 'd' and flags ~= 'do' and not above and not leased then
  if granted == total then
    return text1
  elseif granted == 0 and flags == '' then
    return -1
  end
end
local report1 = {text1, sum1, 0}
if sum1 > 0 then
  local last, need = count1 > 0 and newest1 or match(older1, ' (%d+):%d+$'), want - most1 + sum1
  report1[3] = (last + ARGV[6] + 1) * ARGV[5] * 1000 - now
  for cell, permits in string.gmatch(need > 0 and string.sub(older1, from1) or '', '(%d+):(%d+)') do
    if need > 0 then
      report1[#report1 + 1] = (cell + ARGV[6] + 1) * ARGV[5] * 1000 - now
      report1[#report1 + 1] = tonumber(permits)
      need = need - permits
    end
  end
  if need > 0 and count1 > 0 then
    report1[#report1 + 1] = report1[3]
    report1[#report1 + 1] = count1
  end
end
if leased then
  return {0, answers or '*', report1, leased, span}
end
return {0, answers or '*', report1}

---- charge
local call, floor, ceil, max, min, fmod = redis.call, math.floor, math.ceil, math.max, math.min, math.fmod
local match, format, tonumber = string.match, string.format, tonumber
local KEYS, ARGV, now = KEYS, ARGV, ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
now = max(0, now)
local millis, backdate = floor(now / 1000), nil -- only acquire has waiters
local most1, cell1, sum1, newest1, count1, older1 = tonumber(ARGV[4]), floor(millis / ARGV[5]), 0, 0, 0, ''
local from1, gone1, epoch1, text1 = 1, 0, false, call('GET', KEYS[1]) or ''
if text1 ~= '' then
  local word, sum, newest, count, older = match(text1, '^(%w+) (%d+) (%d+) (%d+)([ %d:]*)$')
  if not word or #sum > 16 or #newest > 16 or #count > 16 or (newest + ARGV[6] + 1) * ARGV[5] > 9007199254740992 then
    return {3, 1, text1}
  end
  cell1 = max(cell1, newest)
  local first = cell1 - ARGV[6]
  if newest + 0 >= first then
    epoch1, sum1, newest1, count1, older1 = word, tonumber(sum), tonumber(newest), tonumber(count), older
    while from1 <= #older do
      local cell, permits, behind = match(older, '^ (%d+):(%d+)()', from1)
      if not cell or #permits > 16 then
        return {3, 1, text1}
      elseif tonumber(cell) >= first then
        break
      end
      gone1, from1 = gone1 + permits, behind
    end
    sum1 = max(sum1 - gone1, count1)
  end
end
local free1 = most1 - sum1
local granted, epoch, answers, want = ARGV[2] + 0, ARGV[3], nil, 1
do
  local n = min(granted, 9007199254740992 - sum1) -- only Charge reaches this
  if not epoch1 then
    epoch1, newest1 = epoch, cell1
  end
  older1, from1 = string.sub(older1, from1), 1
  if newest1 < cell1 then
    if count1 > 0 then
      older1 = older1 .. format(' %d:%d', newest1, count1)
    end
    newest1, count1 = cell1, 0
  end
  sum1, count1 = sum1 + n, count1 + n
  text1 = format('%s %d %d %d', epoch1, sum1, newest1, count1) .. older1
  call('SET', KEYS[1], text1, 'PX', (ARGV[6] + 1) * ARGV[5])
end
local report1 = {text1, sum1, 0}
if sum1 > 0 then
  local last, need = count1 > 0 and newest1 or match(older1, ' (%d+):%d+$'), want - most1 + sum1
  report1[3] = (last + ARGV[6] + 1) * ARGV[5] * 1000 - now
  for cell, permits in string.gmatch(need > 0 and string.sub(older1, from1) or '', '(%d+):(%d+)') do
    if need > 0 then
      report1[#report1 + 1] = (cell + ARGV[6] + 1) * ARGV[5] * 1000 - now
      report1[#report1 + 1] = tonumber(permits)
      need = need - permits
    end
  end
  if need > 0 and count1 > 0 then
    report1[#report1 + 1] = report1[3]
    report1[#report1 + 1] = count1
  end
end
return {0, '*', report1}

---- release
local call, floor, ceil, max, min, fmod = redis.call, math.floor, math.ceil, math.max, math.min, math.fmod
local match, format, tonumber = string.match, string.format, tonumber
local KEYS, ARGV, now = KEYS, ARGV, ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
now = max(0, now)
local millis, backdate = floor(now / 1000), nil -- only acquire has waiters
local most1, cell1, sum1, newest1, count1, older1 = tonumber(ARGV[3]), floor(millis / ARGV[4]), 0, 0, 0, ''
local from1, gone1, epoch1, text1 = 1, 0, false, call('GET', KEYS[1]) or ''
if text1 ~= '' then
  local word, sum, newest, count, older = match(text1, '^(%w+) (%d+) (%d+) (%d+)([ %d:]*)$')
  if not word or #sum > 16 or #newest > 16 or #count > 16 or (newest + ARGV[5] + 1) * ARGV[4] > 9007199254740992 then
    return {3, 1, text1}
  end
  cell1 = max(cell1, newest)
  local first = cell1 - ARGV[5]
  if newest + 0 >= first then
    epoch1, sum1, newest1, count1, older1 = word, tonumber(sum), tonumber(newest), tonumber(count), older
    while from1 <= #older do
      local cell, permits, behind = match(older, '^ (%d+):(%d+)()', from1)
      if not cell or #permits > 16 then
        return {3, 1, text1}
      elseif tonumber(cell) >= first then
        break
      end
      gone1, from1 = gone1 + permits, behind
    end
    sum1 = max(sum1 - gone1, count1)
  end
end
local free1 = most1 - sum1
local n, receipts = tonumber(ARGV[2]), {unpack(ARGV, 5 + 1)}
do
  local receipt = receipts[1]
  local word, only = match(receipt or '', '^(%w+) %d+ (%d+) ')
  if sum1 > 0 and (not receipt or word == epoch1) then
    local first, cells, rest = cell1 - ARGV[5], {}, n
    for cell, permits in string.gmatch(older1, '(%d+):(%d+)') do
      cells[#cells + 1] = {cell, tonumber(permits)}
    end
    cells[#cells + 1] = {format('%d', newest1), count1}
    for i = #cells, 1, -1 do
      local cell = cells[i]
      if cell[1] + 0 >= first and (not receipt or cell[1] == only) then
        local back = min(rest, cell[2])
        rest, cell[2] = rest - back, cell[2] - back
      end
    end
    if rest < n and sum1 > n - rest then
      local kept = {}
      for i = 1, #cells - 1 do
        if cells[i][2] > 0 then
          kept[#kept + 1] = format(' %s:%d', cells[i][1], cells[i][2])
        end
      end
      sum1, count1, older1 = sum1 + gone1 - n + rest, cells[#cells][2], table.concat(kept)
      text1 = format('%s %d %d %d', epoch1, sum1, newest1, count1) .. older1
      call('SET', KEYS[1], text1, 'KEEPTTL')
    elseif rest < n then
      call('UNLINK', KEYS[1])
    end
  end
end
return 1

---- peek
local call, floor, ceil, max, min, fmod = redis.call, math.floor, math.ceil, math.max, math.min, math.fmod
local match, format, tonumber = string.match, string.format, tonumber
local KEYS, ARGV, now = KEYS, ARGV, ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
now = max(0, now)
local millis, backdate = floor(now / 1000), nil -- only acquire has waiters
local most1, cell1, sum1, newest1, count1, older1 = tonumber(ARGV[2]), floor(millis / ARGV[3]), 0, 0, 0, ''
local from1, gone1, epoch1, text1 = 1, 0, false, call('GET', KEYS[1]) or ''
if text1 ~= '' then
  local word, sum, newest, count, older = match(text1, '^(%w+) (%d+) (%d+) (%d+)([ %d:]*)$')
  if not word or #sum > 16 or #newest > 16 or #count > 16 or (newest + ARGV[4] + 1) * ARGV[3] > 9007199254740992 then
    return {3, 1, text1}
  end
  cell1 = max(cell1, newest)
  local first = cell1 - ARGV[4]
  if newest + 0 >= first then
    epoch1, sum1, newest1, count1, older1 = word, tonumber(sum), tonumber(newest), tonumber(count), older
    while from1 <= #older do
      local cell, permits, behind = match(older, '^ (%d+):(%d+)()', from1)
      if not cell or #permits > 16 then
        return {3, 1, text1}
      elseif tonumber(cell) >= first then
        break
      end
      gone1, from1 = gone1 + permits, behind
    end
    sum1 = max(sum1 - gone1, count1)
  end
end
local free1 = most1 - sum1
local answers, want = '*', 1
local report1 = {text1, sum1, 0}
if sum1 > 0 then
  local last, need = count1 > 0 and newest1 or match(older1, ' (%d+):%d+$'), want - most1 + sum1
  report1[3] = (last + ARGV[4] + 1) * ARGV[3] * 1000 - now
  for cell, permits in string.gmatch(need > 0 and string.sub(older1, from1) or '', '(%d+):(%d+)') do
    if need > 0 then
      report1[#report1 + 1] = (cell + ARGV[4] + 1) * ARGV[3] * 1000 - now
      report1[#report1 + 1] = tonumber(permits)
      need = need - permits
    end
  end
  if need > 0 and count1 > 0 then
    report1[#report1 + 1] = report1[3]
    report1[#report1 + 1] = count1
  end
end
return {0, answers, report1}

---- drain
local call, floor, ceil, max, min, fmod = redis.call, math.floor, math.ceil, math.max, math.min, math.fmod
local match, format, tonumber = string.match, string.format, tonumber
local KEYS, ARGV, now = KEYS, ARGV, ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
now = max(0, now)
local millis, backdate = floor(now / 1000), nil -- only acquire has waiters
local most1, cell1, sum1, newest1, count1, older1 = tonumber(ARGV[4]), floor(millis / ARGV[5]), 0, 0, 0, ''
local from1, gone1, epoch1, text1 = 1, 0, false, call('GET', KEYS[1]) or ''
if text1 ~= '' then
  local word, sum, newest, count, older = match(text1, '^(%w+) (%d+) (%d+) (%d+)([ %d:]*)$')
  if not word or #sum > 16 or #newest > 16 or #count > 16 or (newest + ARGV[6] + 1) * ARGV[5] > 9007199254740992 then
    return {3, 1, text1}
  end
  cell1 = max(cell1, newest)
  local first = cell1 - ARGV[6]
  if newest + 0 >= first then
    epoch1, sum1, newest1, count1, older1 = word, tonumber(sum), tonumber(newest), tonumber(count), older
    while from1 <= #older do
      local cell, permits, behind = match(older, '^ (%d+):(%d+)()', from1)
      if not cell or #permits > 16 then
        return {3, 1, text1}
      elseif tonumber(cell) >= first then
        break
      end
      gone1, from1 = gone1 + permits, behind
    end
    sum1 = max(sum1 - gone1, count1)
  end
end
local free1 = most1 - sum1
local leave, epoch, answers, want, granted = ARGV[2] + 0, ARGV[3], nil, 1, 0
granted = min(free1) - leave
if granted > 0 then
  do
    local n = min(granted, 9007199254740992 - sum1) -- only Charge reaches this
    if not epoch1 then
      epoch1, newest1 = epoch, cell1
    end
    older1, from1 = string.sub(older1, from1), 1
    if newest1 < cell1 then
      if count1 > 0 then
        older1 = older1 .. format(' %d:%d', newest1, count1)
      end
      newest1, count1 = cell1, 0
    end
    sum1, count1 = sum1 + n, count1 + n
    text1 = format('%s %d %d %d', epoch1, sum1, newest1, count1) .. older1
    call('SET', KEYS[1], text1, 'PX', (ARGV[6] + 1) * ARGV[5])
  end
end
answers = '*'
local report1 = {text1, sum1, 0}
if sum1 > 0 then
  local last, need = count1 > 0 and newest1 or match(older1, ' (%d+):%d+$'), want - most1 + sum1
  report1[3] = (last + ARGV[6] + 1) * ARGV[5] * 1000 - now
  for cell, permits in string.gmatch(need > 0 and string.sub(older1, from1) or '', '(%d+):(%d+)') do
    if need > 0 then
      report1[#report1 + 1] = (cell + ARGV[6] + 1) * ARGV[5] * 1000 - now
      report1[#report1 + 1] = tonumber(permits)
      need = need - permits
    end
  end
  if need > 0 and count1 > 0 then
    report1[#report1 + 1] = report1[3]
    report1[#report1 + 1] = count1
  end
end
return {0, '*', report1}

