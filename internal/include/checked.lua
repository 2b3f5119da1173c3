-- Ends the script if a write of the set was refused, and deletes the value. If the user lacks the
-- right for UNLINK too, the value expires. The reply of a plain grant is 1, which is no error.
-- Needs: failed valueKey.
if failed and failed ~= 1 and type(failed) == 'table' then
  call('SET', valueKey, '0', 'PX', '1')
  redis.pcall('UNLINK', valueKey)
  return failed
end
