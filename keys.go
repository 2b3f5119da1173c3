package rratelimiter

import "github.com/rratelimiter/rratelimiter/internal/inside"

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
	value, permits := suffixed(name, "value:", id), suffixed(name, "permits:", id)
	shared := func(key string) string { return key[:len(key)-len(id)-1] }
	return keys{name, shared(value), shared(permits), value, permits}
}

// suffixed gives the key of one part of a limiter, of one client.
func suffixed(name, part, id string) string {
	var space [128]byte
	return string(append(append(inside.AppendTag(space[:0], name), part...), id...))
}
