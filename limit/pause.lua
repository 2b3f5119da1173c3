-- Pause. ARGV: the pace after a pause, "<permits> <microseconds>" in which they come free. " <number>"
-- is the pace of the limiter of Redisson's layout whose configuration is that key. '' is none. The key
-- holds "<end, ms> <taken>":
--   end    When the pause ends.
--   taken  The permits that were taken since then.
--
-- After the end, permits come free at the pace, until as many are free as the limiter can grant at
-- once: a whole window is not taken at one moment.
--
-- TTL: until the end, and a minute more, which no pace exceeds.

--@ read  out: end@ free@ most@ permits@ rest@ taken@ text@ within@
-- Sets rest@, the microseconds until the end, 0 or below after it. text@ is '' if nothing denies.
local free@, most@, text@ = 9007199254740992, 9007199254740992, call('GET', KEYS[@1]) or ''
local rest@, end@, taken@, permits@, within@ = 0, 0, 0, 0, 0
if text@ ~= '' then
  local finish, taken = match(text@, '^(%d+) (%d+)$')
  if not finish or #finish > 15 or #taken > 16 then
    return {3, @, text@}
  end
  local permits, within = match(ARGV[@1], '^(%d*) (%d+)$')
  end@, taken@, permits@, within@ = finish + 0, taken + 0, tonumber(permits or ''), tonumber(within or '')
  if within@ and not permits@ then
    local rate = call('HMGET', KEYS[within@], 'rate', 'interval')
    permits@, within@ = tonumber(rate[1] or ''), min(60000, tonumber(rate[2] or '') or 0) * 1000
  end
  permits@, within@ = min(9007199254740992, permits@ or 0), permits@ and within@ or 0
  rest@ = end@ * 1000 - now
  if rest@ > 0 then
    free@ = 0
  elseif -rest@ < within@ then
    free@ = floor(-rest@ * permits@ / within@) + 1 - taken@
  else
    text@, rest@, permits@, within@ = '', 0, 0, 0
  end
end

--@ lease  in: span text@  out: span
-- Nothing is leased during a pause, or before all permits are free after it.
span = text@ == '' and span or 0

--@ take  in: end@ granted rest@ taken@ text@  out: taken@ text@
-- Only Charge takes permits during a pause. They do not count after it.
if text@ ~= '' and rest@ <= 0 then
  taken@ = min(9007199254740992, taken@ + granted)
  text@ = format('%d %d', end@, taken@)
  call('SET', KEYS[@1], text@, 'KEEPTTL')
end

--@ pause  in: end@ pause rest@
-- A longer pause stays, also by the clock of the Client that set it: its key expires no sooner.
if pause > 0 then
  local finish = max(rest@ > 0 and end@ or 0, ceil((now + pause) / 1000))
  local life = max(call('PTTL', KEYS[@1]), finish - millis + 60000)
  call('SET', KEYS[@1], format('%d 0', finish), 'PX', format('%d', life))
else
  call('UNLINK', KEYS[@1])
end

--@ report  in: permits@ rest@ taken@ text@ within@  out: report@
local report@ = {text@, rest@, taken@, permits@, within@}
