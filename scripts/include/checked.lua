-- Ends the script if a write of the set was refused. The value expires instead of being deleted,
-- since the user may lack the right for DEL. The reply of a plain grant is 1, which is no error.
-- Needs: failed valueKey.
if failed and failed ~= 1 and type(failed) == 'table' then
  call('SET', valueKey, '0', 'PX', '1')
  return failed
end
