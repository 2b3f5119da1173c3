-- Reads the value. Sets stored, its text, and value, its number.
-- Needs: valueAt valueKey. Sets: stored value.
local stored = call('GET', valueKey)
if stored and stored ~= '0' and not (#stored < 18 and match(stored, '^%-?[1-9]%d*$')) then
  return {CORRUPT, valueAt, '', stored}
end
local value = stored and stored + 0
