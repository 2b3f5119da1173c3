-- TokenBucket. ARGV: capacity, refill, interval in microseconds. The key holds "<at, us> <taken> <part>": at that time so many
-- permits were missing to a full bucket, and part of an interval's refill of another one.

--@ read
local capacity@, refill@, interval@ = tonumber(ARGV[@1]), tonumber(ARGV[@2]), tonumber(ARGV[@3])
-- What is missing, times interval: whole numbers, as long as they are below 2^53.
local at@, missing@, text@ = now, 0, call('GET', KEYS[@]) or ''
if text@ ~= '' then
  local at, taken, part = match(text@, '^(%d+) (%d+) (%d+)$')
  if not at then
    return {3, @, text@}
  end
  at@, missing@ = tonumber(at), taken * interval@ + part
  if at@ < now then
    missing@, at@ = max(0, missing@ - (now - at@) * refill@), now
  end
end
local part@ = math.fmod(missing@, interval@)
local free@, most@ = capacity@ - (missing@ - part@) / interval@ - (part@ > 0 and 1 or 0), capacity@

--@ write
part@ = math.fmod(missing@, interval@)
text@ = format('%d %d %d', at@, (missing@ - part@) / interval@, part@)
call('SET', KEYS[@], text@, 'PX', ceil((missing@ / refill@ + at@ - now) / 1000))

--@ take
missing@ = missing@ + granted * interval@
--@write

--@ release
missing@ = missing@ - n * interval@
if missing@ > 0 then
  --@write
else
  call('UNLINK', KEYS[@])
end

--@ tell
local told@ = {text@, (missing@ - part@) / interval@, part@, at@ - now}
