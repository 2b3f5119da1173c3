-- Pause. ARGV: the pace after a pause, "<permits> <microseconds>" in which they come free. " <number>"
-- is the pace of the limiter of Redisson's layout whose configuration is that key. '' is none. The key
-- holds "<end, ms> <taken>":
--   end    When the pause ends.
--   taken  The permits that were taken since then.
--
-- The time after a pause is a bucket, which is empty but for one permit at the end. It refills at the
-- pace. Once it holds as many as the limiter can grant at once, nothing denies any more. So neither a
-- whole window is taken at one moment, nor are the permits that come free while others wait.
--
-- TTL: until the end, and a minute more, in which the bucket fills. Each grant extends it.

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
  elseif permits@ > 0 and within@ > 0 then
    free@ = floor(-rest@ * permits@ / within@) + 1 - taken@
  end
  if free@ >= permits@ and rest@ <= 0 then
    free@, text@, rest@, permits@, within@ = most@, '', 0, 0, 0
  end
end

--@ lease  in: span text@  out: span
-- Nothing is leased during a pause, or while the bucket fills.
span = text@ == '' and span or 0

--@ take  in: end@ free@ granted permits@ rest@ taken@ text@ within@  out: taken@ text@
-- Charge empties the bucket. What it takes during a pause does not count after it.
if text@ ~= '' and rest@ <= 0 then
  taken@ = min(9007199254740992, taken@ + min(granted, max(0, free@)))
  text@ = format('%d %d', end@, taken@)
  local life = ceil(((taken@ + permits@) * within@ / permits@ + rest@) / 1000)
  call('SET', KEYS[@1], text@, 'PX', format('%d', max(call('PTTL', KEYS[@1]), life)))
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
