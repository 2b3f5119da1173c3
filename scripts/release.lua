-- Returns permits: the oldest grants shrink by as much, so that no permit returns twice. Prefetched
-- permits, whose score is in the future, are returned last: first those of this client, then those
-- of others.
--
-- KEYS: 1 configuration   2 value   3 permits   4 this client's value   5 this client's permits.
--       Only the first three if the client expects the limiter to be OVERALL.
-- ARGV: 1  Unix milliseconds, or '' for the server's clock.
--       2  the permits.
--       3  the ID of this client's prefetches.
--       6  the cursor of the reply before, or absent.
-- Replies {DONE, rest}: another call has to return rest permits, usually 0.
-- Other replies as script.lua: {AGAIN, cursor}, {NO_RATE}, {CORRUPT, ...}, {NEEDS_KEYS}.
--@include names
local hint, ended
--@include limiter
--@include value
--@include window
--@include reclaim
--@include cap

local n, reply, removed, added, score = tonumber(ARGV[2]), {DONE, 0}, nil, nil, nil
if wipe then
  value = rate
elseif more then
  reply = {AGAIN, ''}
else
  --@include member
  local rest, nowNumber, oldest = n, now + 0, call('ZRANGE', permitsKey, drop, drop + page - 1, 'WITHSCORES')
  for i = 1, #oldest, 2 do
    if rest == 0 or tonumber(oldest[i + 1]) > nowNumber then
      break
    end
    local n = permitsOf(oldest[i])
    if not n then
      return {CORRUPT, permitsAt, 'member', oldest[i]}
    end
    if n > rest then
      removed, added, score, rest = {oldest[i]}, resized(oldest[i], n - rest), oldest[i + 1], 0
    else
      drop, rest = drop + 1, rest - n
    end
  end
  for _, own in ipairs({true, false}) do
    for i = 1, #oldest, 2 do
      if rest > 0 and tonumber(oldest[i + 1]) > nowNumber and (prefetchOf(oldest[i]) == ARGV[3]) == own then
        local n = permitsOf(oldest[i])
        if not n then
          return {CORRUPT, permitsAt, 'member', oldest[i]}
        end
        removed = removed or {}
        removed[#removed + 1] = oldest[i]
        if n > rest then
          added, score = resized(oldest[i], n - rest), oldest[i + 1]
        end
        rest = math.max(0, rest - n)
      end
    end
  end
  if rest > 0 and #oldest == page * 2 then
    -- The page may have no permits: Redisson grants requests for 0.
    reply = rest < n and {DONE, rest} or {AGAIN, ''}
    n = n - rest
  end
  value = math.min(rate, value + n)
end
dirty = true
--@include store
--@include swap
--@include checked
--@include expiry
return reply
