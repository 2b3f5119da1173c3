-- FixedWindow. ARGV: permits; interval in milliseconds; 'aligned' or ''. The key holds "<epoch>
-- <end, ms> <count>".
--
-- TTL: an interval from the first grant of a window. An aligned window and a calendar unit renew it
-- with each grant, since a clock that is set back meets the same window again.

--@ read  out: count@ end@ free@ head@ length@ most@ renews@ text@
-- Sets head@, the text before the count, or false if no window is open. Sets length@, the TTL, and
-- renews@, whether a grant renews the TTL.
local most@, end@, length@, renews@ = ARGV[@1] + 0, nil, ARGV[@2], ARGV[@3] ~= ''
--@include openwindow
if not head@ then
  end@ = millis + length@
  if renews@ then
    end@ = end@ - millis % length@
  end
end
local free@ = most@ - count@

--@ openwindow  in: end@  out: count@ end@ head@ text@
local count@, head@, text@ = 0, false, call('GET', KEYS[@1]) or ''
if text@ ~= '' then
  local head, finish, count = match(text@, '^(%w+ (%d+) )(%d+)$')
  if not head or #finish > 15 or #count > 16 then
    return {3, @, text@}
  end
  -- The window counts until its end by every clock, also by one that is before its begin.
  if finish + 0 > millis then
    end@, count@, head@ = finish + 0, count + 0, head
  end
end

--@ lease  in: end@ head@ length@ renews@ span  out: span
-- Leased permits are used in the window that counts them: before it ends by this clock, and before
-- its key expires.
span = min(span, floor(length@ / 16), floor(end@ - now / 1000),
  head@ and not renews@ and call('PTTL', KEYS[@1]) or length@ + 0)

--@ take  in: count@ end@ epoch granted head@ length@ renews@ text@  out: count@ text@
count@ = min(9007199254740992, count@ + granted) -- only Charge reaches this
text@ = (head@ or format('%s %d ', epoch, end@)) .. format('%d', count@)
if head@ and not renews@ then
  call('SET', KEYS[@1], text@, 'KEEPTTL')
else
  call('SET', KEYS[@1], text@, 'PX', length@)
end

--@ release  in: count@ head@ receipts n
do
  local receipt = receipts[@]
  if count@ > 0 and (not receipt or match(receipt, '^%w+ ') == match(head@, '^%w+ ')) then
    if n < count@ then
      call('SET', KEYS[@1], head@ .. format('%d', count@ - n), 'KEEPTTL')
    else
      call('UNLINK', KEYS[@1])
    end
  end
end

--@ report  in: count@ end@ text@  out: report@
local report@ = {text@, count@, end@ * 1000 - now}

--@ next  in: end@ next  out: next
next = max(next, end@ * 1000 - now)
