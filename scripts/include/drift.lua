-- Corrects drift: value + permits in the set should be the rate. excess is the difference. The set
-- has at most a page of grants behind those that drop removes.
--   excess > 0, stored > rate: the rate was lowered. value = rate - permits in the set.
--   excess > 0: Redisson released permits. The oldest grants, of excess permits, are removed from
--               the set, and the stored value stays. Expired grants are the oldest of these, and
--               return as many permits less.
--   excess < 0: the rate was raised, or permits were lost. value = rate - permits in the set.
-- Needs: added dirty drop permitsAt permitsKey rate removed score size stored value.
-- Sets: added dirty drop removed score value.
--@include count
local excess, members = value - rate, size > drop and call('ZRANGE', permitsKey, drop, '-1') or {}
for i = 1, #members do
  excess = excess + (count(members[i]) or 0) -- an invalid member is an error when it expires
end
if excess ~= 0 then
  local rest = excess > 0 and stored + 0 <= rate and math.max(0, stored + excess - value) or 0
  value, dirty = value - excess + rest, true
  if rest > 0 then
    --@include resized
    local newest, oldest = math.huge, call('ZRANGE', permitsKey, drop, '-1', 'WITHSCORES')
    --@include cut
  end
end
