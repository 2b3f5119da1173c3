-- Pause. ARGV: none. The key holds "paused". It expires when the pause ends, by the server's clock.

--@ read  out: free@ most@ rest@ text@
-- Sets rest@, the milliseconds until the end, 0 without a pause. text@ stays '': a pause has no receipt.
local free@, most@, text@, rest@ = 9007199254740992, 9007199254740992, '', call('PTTL', KEYS[@1])
if rest@ ~= -2 then
  local found = call('GET', KEYS[@1])
  if found ~= 'paused' or rest@ < 0 then
    return {3, @, found}
  end
  if rest@ > 0 then
    free@ = 0
  end
end
rest@ = max(0, rest@)

--@ prefetch  in: free@ span  out: span
-- Nothing is prefetched during a pause.
span = free@ > 0 and span or 0

--@ pause  in: pause rest@
-- A longer pause stays.
if pause == 0 then
  call('UNLINK', KEYS[@1])
elseif pause > rest@ then
  call('SET', KEYS[@1], 'paused', 'PX', ARGV[1])
end

--@ report  in: rest@ text@  out: report@
local report@ = {text@, rest@ * 1000}

--@ next  in: next rest@  out: next
next = max(next, rest@ * 1000)
