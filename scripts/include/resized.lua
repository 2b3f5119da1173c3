-- resized returns the member of a grant with another number of permits.
-- Sets: resized.
local function resized(member, n)
  return string.sub(member, 1, -5) .. string.char(n % 256, math.floor(n / 256) % 256,
    math.floor(n / 65536) % 256, math.floor(n / 16777216))
end
