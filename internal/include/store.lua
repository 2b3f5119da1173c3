-- Writes value, and removes the expired grants that it includes. Sets failed, the reply
-- of the last write of the set: a table if it was refused. Then the includes up to checked write no
-- more.
-- Needs: dirty drop permitsKey spent value valueKey wipe. Sets: failed.
if dirty then
  call('SET', valueKey, string.format('%d', value))
elseif spent then
  call('DECRBY', valueKey, spent)
end
local failed
if wipe then
  failed = redis.pcall('UNLINK', permitsKey)
elseif drop > 0 then
  failed = redis.pcall('ZREMRANGEBYRANK', permitsKey, '0', drop - 1)
end
