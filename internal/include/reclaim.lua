-- Adds expired grants to value, the free permits. Only reads. Sets:
--   dirty   value is to be written.
--   wipe    All grants have expired.
--   drop    So many of the oldest grants are in value and are to be removed.
--   more    Other expired grants remain.
--   size    The number of grants in the set, or nil if unknown.
--   spent   nil: acquire sets it if DECRBY is enough.
-- Needs: expired permitsAt permitsKey rate setTTL stored ttl value. Sets: dirty drop more size spent
-- value wipe.
local spent = nil
local size = setTTL == -2 and 0 or expired > 0 and call('ZCARD', permitsKey) or nil
local dirty, more, wipe, drop = not stored or setTTL ~= -1 and ttl == -1, false, false, 0
if expired == size then
  -- No permit is taken, whatever the value is: all grants have expired, or the set was evicted.
  wipe = expired > 0
  if value ~= rate then
    value, dirty = rate, true
  end
elseif expired > 0 or not value then
  --@include member
  if expired > 0 then
    more, drop = expired > page, math.min(expired, page)
    local returned, sum = call('ZRANGE', permitsKey, '0', drop - 1), 0
    for i = 1, #returned do
      local n = permitsOf(returned[i])
      if not n then
        return {CORRUPT, permitsAt, 'member', returned[i]}
      end
      sum = sum + n
    end
    dirty = true
    if value then
      value = value + sum
    end
  end
  if not value then
    -- Only the value was lost: value = rate - taken permits. The count starts at the newest grant. So
    -- grants that expire meanwhile do not shift those already counted.
    if more then
      call('ZREMRANGEBYRANK', permitsKey, '0', drop - 1)
      return {AGAIN, ''}
    end
    local inside = (size or call('ZCARD', permitsKey)) - expired
    local newest = call('ZRANGE', permitsKey, '-1', '-1')[1]
    local skip, sum, mark = string.match(ARGV[6] or '', '^(%d+) (%d+) (.*)$')
    if mark == newest and tonumber(skip) <= inside then
      skip, sum = tonumber(skip), tonumber(sum)
    else
      skip, sum = 0, 0
    end
    local stop = math.min(skip + page, inside)
    local members = stop > skip and call('ZREVRANGE', permitsKey, skip, stop - 1) or {}
    for i = 1, #members do
      local n = permitsOf(members[i])
      if not n then
        return {CORRUPT, permitsAt, 'member', members[i]}
      end
      sum = sum + n
    end
    if stop < inside then
      return {AGAIN, string.format('%d %d ', stop, sum) .. newest}
    end
    value = rate - sum
  end
end
