-- Takes rest permits off the oldest grants with scores up to newest. The table oldest lists
-- grants with their scores. Whole grants increase drop. One grant shrinks: removed gets its member,
-- added its new member, and score its score.
-- Needs: added drop newest oldest permitsAt permitsOf removed resized rest score. Sets: added drop
-- removed rest score.
for i = 1, #oldest, 2 do
  if rest == 0 or tonumber(oldest[i + 1]) > newest then
    break
  end
  local n = permitsOf(oldest[i])
  if not n then
    return {CORRUPT, permitsAt, 'member', oldest[i]}
  end
  if n > rest then
    removed, added, score, rest = {oldest[i]}, resized(oldest[i], n - rest), oldest[i + 1], 0
  else
    drop, rest = drop + 1, rest - n
  end
end
