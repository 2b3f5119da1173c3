package rratelimiter

import (
	"fmt"
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
func (k *limiterKeys) waiters() string { return redisx.Beside("waiters", k[valueKey]) }

// statePrefix returns the prefix of the state keys of a name. A name without a brace becomes the
// hash tag, so that all keys share a slot on a cluster. In a name with a brace the user has set the
// tag.
func statePrefix(name string) string {
	if strings.Contains(name, "{") {
		return name + ":"
	}
	return "{" + name + "}:"
}

// checkSlots returns ErrCrossSlot if the keys of a name, or of both names of a rename or copy, do not share a
// slot. The keys of a name without braces always do; with Redisson too, other names may not.
func checkSlots(all ...string) error {
	return shareSlot("use names without braces, or with one non-empty hash tag (the same in both names of a rename or copy)",
		all)
}

// shareSlot returns ErrCrossSlot, with advice, if the keys do not share a slot.
func shareSlot(advice string, all []string) error {
	for _, key := range all[1:] {
		if redisx.Tag(key) == redisx.Tag(all[0]) {
			continue
		}
		if want, got := redisx.Slot(all[0]), redisx.Slot(key); got != want {
			return fmt.Errorf("%w: %q is in slot %d, %q in slot %d: %s", ErrCrossSlot, all[0], want, key, got, advice)
		}
	}
	return nil
}
