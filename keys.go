package rratelimiter

import "strings"

// keys are the Redis keys of one limiter as one client sees them, in the order in which scripts get them.
type keys [5]string

const (
	configKey        = iota // hash: the configuration
	valueKey                // string: free permits of an Overall limiter
	permitsKey              // sorted set: grants of an Overall limiter
	clientValueKey          // string: free permits of this client of a PerClient limiter
	clientPermitsKey        // sorted set: grants of this client of a PerClient limiter

	sharedKeys = permitsKey + 1 // so many are those of an Overall limiter
)

// keyTypes is what each of the keys holds, as TYPE names it.
var keyTypes = [...]string{configKey: "hash", valueKey: "string", permitsKey: "zset", clientValueKey: "string", clientPermitsKey: "zset"}

// newKeys gives the keys of the limiter of a mapped name for the client of an id, as Redisson names them.
func newKeys(name, id string) keys {
	value, permits := suffixed(name, "value"), suffixed(name, "permits")
	return keys{name, value, permits, value + ":" + id, permits + ":" + id}
}

// suffixed gives the key of one part of a limiter. A name without a brace becomes the hash tag, so that the key
// shares the slot of the name on a cluster; in a name with a brace the user has set the tag.
func suffixed(name, part string) string {
	if strings.Contains(name, "{") {
		return name + ":" + part
	}
	return "{" + name + "}:" + part
}
