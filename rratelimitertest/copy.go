package rratelimitertest

import (
	"slices"
	"strconv"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// copyTakesTTL makes Limiter.Copy with Replace remove the expiry of the limiter that it replaces, as
// COPY of Redis does. That of miniredis keeps it if the copied limiter has none. The hook cannot wait
// for the script's COPY: it would need the lock that the script holds.
func copyTakesTTL(redis *miniredis.Miniredis) {
	redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
		if from, to, ok := replaces(command, args); ok && redis.Exists(from) && from != to && redis.TTL(from) == 0 {
			redis.Del(to)
		}
		return false
	})
}

// replaces returns the configuration keys of a call that copies a limiter to the name of another.
func replaces(command string, args []string) (from, to string, ok bool) {
	const keys = 5 // of a limiter
	begin := []string{strconv.Itoa(2 * keys), "COPY", "1"}
	if len(args) != 2+2*keys+2 || command != "EVAL" && command != "EVALSHA" ||
		!slices.Equal(begin, []string{args[1], args[2+2*keys], args[3+2*keys]}) {
		return "", "", false
	}
	return args[2], args[2+keys], true
}
