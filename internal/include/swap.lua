-- Removes the members of the list removed. Adds the member added with its score, if there is one.
-- Needs: added failed permitsKey removed score. Sets: failed.
if removed and type(failed) ~= 'table' then
  if added then
    failed = redis.pcall('ZADD', permitsKey, score, added)
  end
  if type(failed) ~= 'table' then
    failed = redis.pcall('ZREM', permitsKey, unpack(removed))
  end
end
