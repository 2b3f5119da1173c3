-- Returns permits of one grant, which are not needed. If the grant is not in the set, it has expired,
-- was released, or was lost in a failover. Its permits are free then, and all taken permits belong to
-- others. If a refund of other callers of the grant has shrunk it, or another client's release, it
-- has the same random bytes. Without a score, only a grant that a release has shrunk is found: it is
-- among the oldest.
--
-- KEYS: 1 configuration   2 value   3 permits   4 this client's value   5 this client's permits.
--       Only the first three if the client expects the limiter to be OVERALL.
-- ARGV: 1  Unix milliseconds, or '' for the server's clock.
--       2  the permits.
--       3  the member of the grant.
--       4  the member of the permits that stay taken, or ''.
--       5  the score of the grant, or ''.
--       6  the cursor of the reply before, or absent.
-- Replies {DONE, 0}.
-- Other replies as script.lua: {AGAIN, cursor}, {NO_RATE}, {CORRUPT, ...}, {NEEDS_KEYS}.
--@include names
local hint, ended
--@include limiter
--@include value
--@include window
--@include reclaim
--@include cap

local reply, n, member, removed = {DONE, 0}, tonumber(ARGV[2]), ARGV[3], nil
local added, score = ARGV[4] ~= '' and ARGV[4] or nil, call('ZSCORE', permitsKey, member)
if not score then
  --@include member
  local grant, grants = grantOf(member), nil
  if ARGV[5] ~= '' then
    grants = call('ZRANGEBYSCORE', permitsKey, ARGV[5], ARGV[5], 'WITHSCORES', 'LIMIT', '0', page)
  else
    grants = call('ZRANGE', permitsKey, drop, drop + page - 1, 'WITHSCORES')
  end
  for i = 1, #grants, 2 do
    if grantOf(grants[i]) == grant then
      local held = permitsOf(grants[i])
      member, score, added = grants[i], grants[i + 1], nil
      if held > n then
        added = resized(member, held - n)
      else
        n = held
      end
      break
    end
  end
end
if score and tonumber(score) > ended then
  removed, value, dirty = {member}, math.min(rate, value + n), true
end
--@include store
--@include swap
--@include checked
--@include expiry
return reply
