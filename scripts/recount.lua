-- Counts the permits of a set, which corrects drift: value + permits in the set should be the rate.
-- See include/drift.lua. The client calls this script again until it has counted a set of any size.
-- Other calls run in between.
--
-- KEYS: 1 configuration   2 value   3 permits   4 this client's value   5 this client's permits.
--       Only the first three if the client expects the limiter to be OVERALL.
-- ARGV: 1  Unix milliseconds, or '' for the server's clock.
--       6  the cursor of the reply before, or absent.
-- Replies {DONE, settled, rate, interval}. settled is 1, or 0 if another count is to follow soon: other
-- calls disturbed this one, or it has corrected drift.
-- Other replies as script.lua: {AGAIN, cursor}, {NO_RATE}, {CORRUPT, ...}, {NEEDS_KEYS}.
--
-- The cursor of a count is 'low high members sum exact earlier'. The grants with scores of low to high
-- are counted. Their number is members, and they have sum permits. exact is n if other grants were
-- added among them, otherwise y. earlier is the excess of the previous count.
--
-- The cursor 'found excess' is between two counts: the second confirms the excess of the first.
--
-- The cursor 'cut permits newest' follows them. Grants of so many permits, with scores up to newest,
-- remain to be removed. Until then the value is lower by as many, so that no other client removes
-- grants for the same excess.
--
-- A line feed and a member of the set follow. If that is gone, other calls may have replaced the state,
-- as Copy, Rename and a change of the type do. The count ends then, since what it knows is of another
-- state.
--
-- Other calls do not change excess, so that the pages can be counted one by one. A grant lowers the
-- value and raises the set. An expired grant does the reverse. The last call reads the value, the
-- oldest page and the grants above high.
--
-- Clients with late clocks, refunds and releases change grants that are already counted. Then the
-- number of these grants differs. If there are fewer, the count starts again. If there are more, sum
-- is too low, and so is excess: it must not raise the value. If as many were added as removed, the
-- count does not notice it. If a counted grant shrinks, excess is too large.
--
-- So the value rises only if two counts agree. Grants are removed only for the smaller excess of two
-- counts, so that no grant in use leaves the set.
--@include names
local hint, ended
--@include limiter
-- A count is no use of the limiter: the state gets the TTL that the configuration has, and that one is
-- not extended.
keepAlive = '0'
--@include value
--@include window
--@include reclaim
size = wipe and 0 or size or call('ZCARD', permitsKey)

local cursor, mark = match(ARGV[6] or '', '^([^\n]*)\n(.*)$')
local following, settled, replaced = nil, 1, mark and not call('ZSCORE', permitsKey, mark)
cursor = cursor or ARGV[6] or ''
local rest, newest, returned = 0, math.huge, stored and value - stored -- by expired grants
if more and replaced then
  settled = 0
elseif more then
  following = cursor -- once the expired grants of this page are removed
elseif size - drop <= page then
  --@include drift
elseif stored and replaced then
  settled = 0
elseif stored and match(cursor, '^cut ') then
  local permits, score = match(cursor, '^cut (%d+) (%-?%d+)$')
  settled, rest, newest = 0, permits + 0, score + 0
elseif stored then -- otherwise the value was counted from the set
  -- Counts a page of the grants below low. If the grants above high are more than two pages, counts a
  -- page of these too.
  local low, high, members, sum, exact, earlier = match(cursor, '^(%S+) (%S+) (%d+) (%d+) ([yn]) (%-?%d+)$')
  local complete, pages = true, {}
  if low then
    local present = call('ZCOUNT', permitsKey, low, high)
    complete, exact = present >= members + 0, present > members + 0 and 'n' or exact
    members, sum = present, sum + 0
  else
    high = call('ZREVRANGE', permitsKey, page, page, 'WITHSCORES')[2]
    low, members, sum, exact, earlier = '(' .. high, 0, 0, 'y', match(cursor, '^found (%-?%d+)$') or '0'
  end
  local newer = call('ZCOUNT', permitsKey, '(' .. high, '+inf')
  -- All grants of a score are counted in one call, so that the count notices a grant that is added
  -- later.
  if newer > page * 2 then
    local top = call('ZREVRANGE', permitsKey, newer - page, newer - page, 'WITHSCORES')[2]
    local n = call('ZCOUNT', permitsKey, '(' .. high, top)
    if n <= page * 2 then
      pages[1] = call('ZREVRANGE', permitsKey, newer - n, newer - 1)
      high, members, newer = top, members + n, newer - n
    end
  end
  local first = newer + members
  local bottom = call('ZREVRANGE', permitsKey, first + page - 1, first + page - 1, 'WITHSCORES')[2]
  local last = not bottom and newer <= page * 2
  if bottom or last then
    local n = bottom and call('ZCOUNT', permitsKey, bottom, high) - members or size - first
    low, members, complete = bottom or '-inf', members + n, complete and n <= page * 2
    pages[#pages + 1] = complete and n > 0 and call('ZREVRANGE', permitsKey, first, first + n - 1) or nil
  end
  if last and newer > 0 then
    pages[#pages + 1] = call('ZREVRANGE', permitsKey, '0', newer - 1)
  end
  --@include count
  for _, list in ipairs(pages) do
    for i = 1, #list do
      sum = sum + (count(list[i]) or 0)
    end
  end
  if not complete then
    settled = 0
  elseif not last then
    following = string.format('%s %s %d %.0f %s %s', low, high, members, sum, exact, earlier)
  else
    local excess = stored + sum - rate
    earlier = earlier + 0
    if excess > 0 then
      settled = 0
    end
    if excess > 0 and stored + 0 <= rate and earlier > 0 then
      excess = math.min(excess, earlier)
    elseif excess > 0 and stored + 0 <= rate or excess < 0 and exact == 'y' and excess ~= earlier then
      following, excess = string.format('found %.0f', excess), 0
    elseif excess < 0 and exact == 'n' then
      excess = 0
    end
    if excess ~= 0 then
      value, dirty = value - excess, true
      rest = excess > 0 and stored + 0 <= rate and excess or 0
    end
  end
end
if rest > 0 then
  --@include count
  --@include resized
  rest = math.max(0, rest - returned)
  value, dirty = value + rest, true
  local oldest = rest > 0 and call('ZRANGE', permitsKey, drop, drop + page - 1, 'WITHSCORES') or {}
  --@include cut
  value = value - rest
  if rest > 0 and tonumber(oldest[#oldest]) <= newest then
    following = string.format('cut %.0f %.0f', rest, math.min(newest, now))
  end
end
if value > rate then
  value, dirty = rate, true
end
mark = following and call('ZREVRANGE', permitsKey, page, page)[1]
if mark then
  following = following .. '\n' .. mark
end
local reply = following and {AGAIN, following} or {DONE, settled, rate, math.min(interval, 9007199254740992)}
--@include store
--@include swap
--@include checked
--@include expiry
return reply
