-- Adds the grant of acquire to the set. Redisson's member counts to 4294967295, and no call
-- requests more.
-- Needs: failed granted grantedAt permitsKey total. Sets: failed.
if granted > 0 and (not failed or type(failed) ~= 'table') then
  local member = ARGV[2]
  if granted ~= total then
    --@include member
    member = resized(member, granted)
  end
  failed = redis.pcall('ZADD', permitsKey, grantedAt, member)
end
