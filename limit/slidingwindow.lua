-- SlidingWindow. ARGV: permits, milliseconds of a cell, cells. The key holds "<epoch> <sum>
-- <newest> <count>". Sum is the permits of all cells. Newest is the newest cell, whose number
-- counts from the Unix epoch, and count its permits. The older cells follow, the oldest first: "
-- <cell>:<permits>".
--
-- TTL: an interval and a cell from the last grant.

--@ read  out: cell@ count@ epoch@ free@ from@ gone@ most@ newest@ older@ sum@ text@
-- Sets cell@, the cell of now. Sets newest@ and count@, the newest cell and its permits. Sets
-- older@, the text of the others: its first from@ - 1 bytes are expired cells, with gone@ permits.
-- If epoch@ is false, no permit is taken.
local most@, cell@, sum@, newest@, count@, older@ = tonumber(ARGV[@1]), floor(millis / ARGV[@2]), 0, 0, 0, ''
local from@, gone@, epoch@, text@ = 1, 0, false, call('GET', KEYS[@1]) or ''
if text@ ~= '' then
  local word, sum, newest, count, older = match(text@, '^(%w+) (%d+) (%d+) (%d+)([ %d:]*)$')
  if not word or #sum > 16 or #newest > 16 or #count > 16 or (newest + ARGV[@3] + 1) * ARGV[@2] > 9007199254740992 then
    return {3, @, text@}
  end
  cell@ = max(cell@, newest)
  local first = cell@ - ARGV[@3]
  if newest + 0 >= first then
    epoch@, sum@, newest@, count@, older@ = word, tonumber(sum), tonumber(newest), tonumber(count), older
    while from@ <= #older do
      local cell, permits, behind = match(older, '^ (%d+):(%d+)()', from@)
      if not cell or #permits > 16 then
        return {3, @, text@}
      elseif tonumber(cell) >= first then
        break
      end
      gone@, from@ = gone@ + permits, behind
    end
    sum@ = max(sum@ - gone@, count@)
  end
end
local free@ = most@ - sum@

--@ write  in: count@ epoch@ newest@ older@ sum@ text@  out: text@
text@ = format('%s %d %d %d', epoch@, sum@, newest@, count@) .. older@

--@ take  in: cell@ count@ epoch epoch@ from@ granted newest@ older@ sum@ text@  out: count@ epoch@ from@ newest@
--+ older@ sum@ text@
do
  local n = min(granted, 9007199254740992 - sum@) -- only Charge reaches this
  if not epoch@ then
    epoch@, newest@ = epoch, cell@
  end
  older@, from@ = string.sub(older@, from@), 1
  if newest@ < cell@ then
    if count@ > 0 then
      older@ = older@ .. format(' %d:%d', newest@, count@)
    end
    newest@, count@ = cell@, 0
  end
  sum@, count@ = sum@ + n, count@ + n
  --@include write
  call('SET', KEYS[@1], text@, 'PX', (ARGV[@3] + 1) * ARGV[@2])
end

--@ release  in: cell@ count@ epoch@ gone@ receipts n newest@ older@ sum@ text@  out: count@ older@ sum@ text@
-- Returns the newest permits, or with a receipt those of its cell. Expired cells stay in the text,
-- since another clock may be behind this one.
do
  local receipt = receipts[@]
  local word, only = match(receipt or '', '^(%w+) %d+ (%d+) ')
  if sum@ > 0 and (not receipt or word == epoch@) then
    local first, cells, rest = cell@ - ARGV[@3], {}, n
    for cell, permits in string.gmatch(older@, '(%d+):(%d+)') do
      cells[#cells + 1] = {cell, tonumber(permits)}
    end
    cells[#cells + 1] = {format('%d', newest@), count@}
    for i = #cells, 1, -1 do
      local cell = cells[i]
      if cell[1] + 0 >= first and (not receipt or cell[1] == only) then
        local back = min(rest, cell[2])
        rest, cell[2] = rest - back, cell[2] - back
      end
    end
    if rest < n and sum@ > n - rest then
      local kept = {}
      for i = 1, #cells - 1 do
        if cells[i][2] > 0 then
          kept[#kept + 1] = format(' %s:%d', cells[i][1], cells[i][2])
        end
      end
      sum@, count@, older@ = sum@ + gone@ - n + rest, cells[#cells][2], table.concat(kept)
      --@include write
      call('SET', KEYS[@1], text@, 'KEEPTTL')
    elseif rest < n then
      call('UNLINK', KEYS[@1])
    end
  end
end

--@ report  in: count@ from@ most@ newest@ older@ sum@ text@ want  out: report@
-- As SlidingLog's.
local report@ = {text@, sum@, 0}
if sum@ > 0 then
  local last, need = count@ > 0 and newest@ or match(older@, ' (%d+):%d+$'), want - most@ + sum@
  report@[3] = (last + ARGV[@3] + 1) * ARGV[@2] * 1000 - now
  for cell, permits in string.gmatch(need > 0 and string.sub(older@, from@) or '', '(%d+):(%d+)') do
    if need > 0 then
      report@[#report@ + 1] = (cell + ARGV[@3] + 1) * ARGV[@2] * 1000 - now
      report@[#report@ + 1] = tonumber(permits)
      need = need - permits
    end
  end
  if need > 0 and count@ > 0 then
    report@[#report@ + 1] = report@[3]
    report@[#report@ + 1] = count@
  end
end

--@ next  in: batch missed most@ next report@ sum@ window  out: batch next window
do
  local need, i = (missed or 1) - most@ + sum@, 4
  while need > 0 and report@[i] do
    next, need, i = max(next, report@[i]), need - report@[i + 1], i + 2
  end
  if not batch or most@ < batch then
    batch, window = most@, ARGV[@2] * ARGV[@3]
  end
end
