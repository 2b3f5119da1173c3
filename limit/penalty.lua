-- Penalty. ARGV: the denials; the milliseconds in which they are counted; those of the penalty; 1 if a
-- request prolongs it, else ''. The key holds the number of denials, or 0 during a penalty.
--
-- TTL: until the end of the count or of the penalty. So both end by the server's clock. A penalty whose key has
-- no expiry, as another program may have left it, begins with the next call.

--@ read  out: count@ endless@ free@ most@ rest@ text@
-- Sets rest@, the microseconds until the end of a penalty, else 0. No permit is taken: the receipt text@ is ''.
local free@, most@, rest@, text@, count@ = 9007199254740992, 9007199254740992, 0, '', call('GET', KEYS[@1])
local endless@ = false
if count@ then
  if #count@ > 15 or not match(count@, '^%d+$') then
    return {3, @, count@}
  end
  count@ = count@ + 0
  if count@ == 0 then
    free@, rest@ = 0, call('PTTL', KEYS[@1])
    endless@ = rest@ == -1
    rest@ = (endless@ and ARGV[@3] or max(1, rest@)) * 1000
  end
end

--@ denied  in: answers beside@ count@ endless@ free@ flags granted rest@ total want  out: free@ rest@
if endless@ then
  call('PEXPIRE', KEYS[@1], ARGV[@3])
end
-- Denials of callers that wait do not count.
if granted < total and flags ~= 'do' then
  local _, denials = string.gsub(answers or 'n', 'n', '')
  local least, begins = answers and want or total, false
  if rest@ > 0 then
    begins = denials > 0 and ARGV[@4] == '1' and ARGV[@3] * 1000 > rest@ -- a longer one stays
  elseif denials > 0 and min(beside@) - granted < least then
    count@ = (count@ or 0) + denials
    begins = count@ >= ARGV[@1] + 0
    if begins then
      free@ = 0
    elseif count@ == denials then
      call('SET', KEYS[@1], format('%d', count@), 'PX', ARGV[@2])
    else
      call('SET', KEYS[@1], format('%d', count@), 'KEEPTTL')
    end
  end
  if begins then
    rest@ = ARGV[@3] * 1000
    call('SET', KEYS[@1], '0', 'PX', ARGV[@3])
  end
end

--@ pause  in: count@ pause
if pause == 0 and count@ then
  call('UNLINK', KEYS[@1])
end

--@ report  in: rest@ text@  out: report@
local report@ = {text@, rest@}

--@ next  in: next rest@  out: next
next = max(next, rest@)
