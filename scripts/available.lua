-- Counts the free permits. Only reads. If grants have expired or the value is lost, it counts a page.
-- The next call continues if the first grant of the count still exists.
--
-- KEYS: 1 configuration   2 value   3 permits   4 this client's value   5 this client's permits.
--       Only the first three if the client expects the limiter to be OVERALL.
-- ARGV: 1  Unix milliseconds, or '' for the server's clock.
--       6  the cursor of the reply before, or absent.
-- Replies {DONE, free}.
-- Other replies as script.lua: {AGAIN, cursor}, {NO_RATE}, {CORRUPT, ...}, {NEEDS_KEYS}.
--@include names
local hint, ended
--@include limiter
--@include value

local free = value
local first, final = 'ZRANGE', 'ZREVRANGE'
if not value then
  first, final = final, first
end
local begin = call(first, permitsKey, '0', '0', 'WITHSCORES')
if not begin[1] then
  return {DONE, rate}
end
local newest = value and call('ZRANGE', permitsKey, '-1', '-1', 'WITHSCORES')[2] or begin[2]
if tonumber(newest) <= ended then
  return {DONE, rate}
end
local skip, sum, mark = string.match(ARGV[6] or '', '^(%d+) (%d+) (.*)$')
if mark == begin[1] then
  skip, sum = tonumber(skip), tonumber(sum)
else
  skip, sum = 0, 0
end
--@include member
local grants = call(first, permitsKey, skip, skip + page - 1, 'WITHSCORES')
local done = #grants < page * 2
for i = 1, #grants, 2 do
  -- Expired grants are added to a value; without a value, the others are taken off the rate.
  local expired = tonumber(grants[i + 1]) <= ended
  if expired ~= (value ~= false) then
    done = true
    break
  end
  local n = permitsOf(grants[i])
  if not n then
    return {CORRUPT, permitsAt, 'member', grants[i]}
  end
  sum = sum + n
end
if not done then
  return {AGAIN, string.format('%d %d ', skip + page, sum) .. begin[1]}
end
free = value and value + sum or rate - sum
return {DONE, math.max(0, math.min(rate, free))}
