local redis, string, KEYS, ARGV = redis, string, KEYS, ARGV
local call, find, match, page = redis.call, string.find, string.match, 256
local DONE, AGAIN, NO_RATE, CORRUPT, LEASED, DONE_OWN, NEEDS_KEYS = 0, 1, 2, 3, 4, 5, 6
local now = ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] .. string.format('%03d', math.floor(time[2] / 1000))
end
local mark = call('GET', KEYS[1])
local counted, at = match(mark or '', '^(%d+ %d+) (%d+)$')
if counted == ARGV[2] and math.abs(now - at) < ARGV[3] + 0 then
  return call('PTTL', KEYS[1])
end
if counted or not mark then
  call('SET', KEYS[1], ARGV[2] .. ' ' .. now, 'PX', ARGV[3])
end
return 0
