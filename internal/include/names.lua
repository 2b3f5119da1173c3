-- Locals, since every access to a global costs a lookup. page bounds the work of one call, however
-- many grants a limiter has; recount.lua has a bound of its own. The others are the first element of
-- replies: see script.go.
-- Sets: AGAIN CORRUPT DONE DONE_OWN PREFETCHED NEEDS_KEYS NO_RATE call find match page.
local redis, string, KEYS, ARGV = redis, string, KEYS, ARGV
local call, find, match, page = redis.call, string.find, string.match, 256
local DONE, AGAIN, NO_RATE, CORRUPT, PREFETCHED, DONE_OWN, NEEDS_KEYS = 0, 1, 2, 3, 4, 5, 6
