-- Locals, since a call of a local function costs the server less than that of a global one. script.go
-- puts each into the block of a script that has all its uses.
-- Sets: ARGV KEYS call ceil floor fmod format match max min.
local call = redis.call
local floor = math.floor
local ceil = math.ceil
local max = math.max
local min = math.min
local fmod = math.fmod
local match = string.match
local format = string.format
local KEYS = KEYS
local ARGV = ARGV
