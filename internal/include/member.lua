-- The format of a member of the permits set, a grant: Redisson's struct.pack('Bc0I', #random, random, n).
--   1 byte    the length of random: 16, or 8 of Redisson before 3.21
--   16 bytes  random. Of a prefetch it begins with the ID of its Client's prefetches: 'LEAS'
--             and four bytes.
--   4 bytes   n, the permits, little-endian
-- permitsOf returns n, also of a member of another format, and nil if that is too short. grantOf returns
-- what two members of one grant share, prefetchOf the ID of a prefetch or nil. resized returns the member
-- with other permits. Package rratelimiter has the same in protocol.go.
-- Sets: grantOf prefetchOf permitsOf resized.
local function permitsOf(member)
  local a, b, c, d = string.byte(member, -4, -1)
  return d and a + b * 256 + c * 65536 + d * 16777216
end
local function grantOf(member)
  return string.sub(member, 1, -5)
end
local function prefetchOf(member)
  return string.sub(member, 2, 5) == 'LEAS' and string.sub(member, 2, 9) or nil
end
local function resized(member, n)
  return grantOf(member) .. string.char(n % 256, math.floor(n / 256) % 256, math.floor(n / 65536) % 256,
    math.floor(n / 16777216))
end
