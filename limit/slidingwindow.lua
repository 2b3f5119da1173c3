-- SlidingWindow. ARGV: permits, milliseconds of a cell, cells. The key holds a hash, whose field m is
-- "<sum> <oldest> <newest> <count>": the permits of all cells from the oldest to the newest, which are numbered from the Unix
-- epoch on, and those of the newest. The field of another cell, where it holds any, is its number modulo cells + 1: so many
-- cells overlap an interval.

--@ read
-- Sets cell@, the cell of now; gone@, the permits of the cells from the oldest on that do not overlap the interval any more.
-- Without count@ nothing is taken.
local most@, cell@, sum@, oldest@, newest@, count@, gone@ = tonumber(ARGV[@1]), floor(millis / ARGV[@2]), 0, 0, 0, 0, 0
local text@ = call('HGET', KEYS[@], 'm')
if text@ then
  local sum, oldest, newest, count = match(text@, '^(%d+) (%d+) (%d+) ([1-9]%d*)$')
  if not sum or #text@ > 99 or newest - oldest < 0 or newest - oldest > tonumber(ARGV[@3]) or (newest + ARGV[@3] + 1) * ARGV[@2] > 9007199254740992 then
    return {3, @, text@}
  end
  oldest@, newest@ = tonumber(oldest), tonumber(newest)
  cell@ = max(cell@, newest@)
  local first = cell@ - ARGV[@3]
  if newest@ >= first then
    sum@, count@ = tonumber(sum), tonumber(count)
    if oldest@ < first then
      local fields = {}
      for i = oldest@, first - 1 do
        fields[#fields + 1] = i % (ARGV[@3] + 1)
      end
      for _, held in ipairs(call('HMGET', KEYS[@], unpack(fields))) do
        if held then
          if not match(held, '^%d+$') then
            return {3, @, held}
          end
          gone@ = gone@ + held
        end
      end
      sum@ = max(sum@ - gone@, count@)
    end
  end
elseif call('EXISTS', KEYS[@]) == 1 then
  return {3, @, ''}
end
local free@ = most@ - sum@

--@ take
sum@ = sum@ + granted
if count@ == 0 then
  if text@ then
    call('UNLINK', KEYS[@])
  end
  text@ = format('%.0f %d %d %.0f', sum@, cell@, cell@, granted)
  call('HSET', KEYS[@], 'm', text@)
else
  if oldest@ < cell@ - ARGV[@3] then
    local fields = {}
    for i = oldest@, cell@ - ARGV[@3] - 1 do
      fields[#fields + 1] = i % (ARGV[@3] + 1)
    end
    call('HDEL', KEYS[@], unpack(fields))
    oldest@ = cell@ - ARGV[@3]
  end
  if newest@ < cell@ then
    text@ = format('%.0f %d %d %.0f', sum@, oldest@, cell@, granted)
    call('HSET', KEYS[@], 'm', text@, newest@ % (ARGV[@3] + 1), format('%.0f', count@))
    count@ = 0
  else
    text@ = format('%.0f %d %d %.0f', sum@, oldest@, cell@, count@ + granted)
    call('HSET', KEYS[@], 'm', text@)
  end
end
if count@ == 0 then
  call('PEXPIRE', KEYS[@], (cell@ + ARGV[@3] + 1) * ARGV[@2] - millis)
end
newest@, count@ = cell@, count@ + granted

--@ late
late = late or cell@ > floor(millis / ARGV[@2])

--@ release
-- The newest permits, or those of the cell of a time. What is gone stays in the sum: a take drops it, whose cell shows all
-- clocks how late it is.
if count@ > 0 and not dated and n >= sum@ then
  call('UNLINK', KEYS[@])
elseif count@ > 0 then
  local only, back, last = dated and floor(floor(dated / 1000) / ARGV[@2]), 0, newest@
  if not only or only == last then
    back = min(n, count@)
    count@ = count@ - back
  end
  local fields, empty, cut, rest = {}, {}, nil, nil
  if count@ == 0 or only and only < last then
    for i = last - 1, max(oldest@, cell@ - ARGV[@3]), -1 do
      fields[#fields + 1] = i % (ARGV[@3] + 1)
    end
  end
  for i, text in ipairs(#fields > 0 and call('HMGET', KEYS[@], unpack(fields)) or {}) do
    local held, less = tonumber(text or '0') or 0, 0
    if not only or only == last - i then
      less = min(n - back, held)
      back = back + less
    end
    if held > less and count@ == 0 then
      -- It is the newest now.
      newest@, count@ = last - i, held - less
      empty[#empty + 1] = fields[i]
      break
    elseif held > less and less > 0 then
      cut, rest = fields[i], format('%.0f', held - less)
    elseif less > 0 then
      empty[#empty + 1] = fields[i]
    end
  end
  if count@ == 0 then
    call('UNLINK', KEYS[@])
  elseif back > 0 then
    if #empty > 0 then
      call('HDEL', KEYS[@], unpack(empty))
    end
    if cut then
      call('HSET', KEYS[@], cut, rest)
    end
    call('HSET', KEYS[@], 'm', format('%.0f %d %d %.0f', sum@ + gone@ - back, oldest@, newest@, count@))
    if newest@ < last then
      call('PEXPIRE', KEYS[@], (newest@ + ARGV[@3] + 1) * ARGV[@2] - millis)
    end
  end
end

--@ tell
-- As SlidingLog's.
local told@ = {text@ or '', min(sum@, 9007199254740992), 0}
if count@ > 0 then
  told@[3] = (newest@ + ARGV[@3] + 1) * ARGV[@2] * 1000 - now
  local need, first, fields = want - most@ + sum@, max(oldest@, cell@ - ARGV[@3]), {}
  if need > 0 then
    for i = first, newest@ - 1 do
      fields[#fields + 1] = i % (ARGV[@3] + 1)
    end
  end
  for i, text in ipairs(#fields > 0 and call('HMGET', KEYS[@], unpack(fields)) or {}) do
    local held = tonumber(text or '0') or 0
    if need > 0 and held > 0 then
      told@[#told@ + 1] = (first + i + ARGV[@3]) * ARGV[@2] * 1000 - now
      told@[#told@ + 1] = min(held, 9007199254740992)
      need = need - held
    end
  end
  if need > 0 then
    told@[#told@ + 1] = told@[3]
    told@[#told@ + 1] = min(count@, 9007199254740992)
  end
end
