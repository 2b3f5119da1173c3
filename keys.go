package rratelimiter

import (
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// limiterKeys are the Redis keys of a limiter that one client can name, in the order of the scripts'
// KEYS.
type limiterKeys [5]string

const (
	configKey        = iota // hash: the configuration
	valueKey                // string: free permits of an Overall limiter
	permitsKey              // sorted set: grants of an Overall limiter
	clientValueKey          // string: free permits of this client of a PerClient limiter
	clientPermitsKey        // sorted set: grants of this client of a PerClient limiter

	sharedKeys = permitsKey + 1 // the number of keys of an Overall limiter
)

// keyTypes are the types of the keys, as TYPE returns them.
var keyTypes = [...]string{configKey: "hash", valueKey: "string", permitsKey: "zset", clientValueKey: "string",
	clientPermitsKey: "zset"}

// newKeys returns the keys of a limiter with a mapped name for a client ID, as Redisson names them.
func newKeys(name, id string) limiterKeys {
	prefix := statePrefix(name)
	value, permits := prefix+"value", prefix+"permits"
	return limiterKeys{name, value, permits, value + ":" + id, permits + ":" + id}
}

// waiters returns the key of the Clients whose callers wait for the limiter: a sorted set, as
// internal/include/rivals.lua describes it. Redisson has no such key.
func (k *limiterKeys) waiters() string { return redisx.Beside(redisx.Waiters, k[valueKey]) }

// statePrefix returns the prefix of the state keys of a name. A name without a brace becomes the
// hash tag, so that all keys share a slot on a cluster. In a name with a brace the user has set the
// tag.
func statePrefix(name string) string {
	if strings.Contains(name, "{") {
		return name + ":"
	}
	return "{" + name + "}:"
}
