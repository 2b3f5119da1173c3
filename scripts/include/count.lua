-- count returns the permits of a grant, or nil if the member is too short.
-- Sets: count.
local function count(member)
  local a, b, c, d = string.byte(member, -4, -1)
  return d and a + b * 256 + c * 65536 + d * 16777216
end
