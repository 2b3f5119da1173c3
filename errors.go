package rratelimiter

import (
	"errors"
	"fmt"
)

// The errors that a caller can act on, for [errors.Is]. A returned error adds the limiter's name
// and the invalid value. Errors of Redis stay reachable with [errors.As] (*rueidis.RedisError), and
// the end of a context with errors.Is(err, context.Canceled) or context.DeadlineExceeded.
var (
	// ErrNotInitialized is returned if the limiter has no rate: see InitialRate, TrySetRate and SetRate.
	ErrNotInitialized = errors.New("rratelimiter: limiter is not initialized")

	// ErrPermitsExceedRate is returned if one call requests more permits than the rate.
	ErrPermitsExceedRate = errors.New("rratelimiter: requested permits exceed the rate")

	// ErrInvalidPermits is returned for a number of permits below 1 or above 4294967295; for
	// Release, below 0 or above 2^53.
	ErrInvalidPermits = errors.New("rratelimiter: invalid number of permits")

	// ErrInvalidRate is returned for a Rate with an invalid field: see [Rate].
	ErrInvalidRate = errors.New("rratelimiter: invalid rate")

	// ErrInvalidName is returned for a name that is empty, as given or as the name mapper returned
	// it, and for a Rename or Copy between names that share a key.
	ErrInvalidName = errors.New("rratelimiter: invalid limiter name")

	// ErrInvalidOption is returned for an option with an invalid value, or one that contradicts
	// another.
	ErrInvalidOption = errors.New("rratelimiter: invalid option")

	// ErrCrossSlot is returned on a Redis Cluster if the keys of a limiter, or of the two limiters
	// of a Rename or Copy, are in different slots.
	ErrCrossSlot = errors.New("rratelimiter: keys do not share a cluster slot")

	// ErrUnsupported is returned if the server is too old for the call, which changed nothing: Copy
	// needs Redis 6.2, Expire and ExpireAt with a condition need 7.0.
	ErrUnsupported = errors.New("rratelimiter: the server does not support this call")

	// ErrNoClient is returned by a Client without a Redis client: New(nil), or a zero Client or
	// Limiter.
	ErrNoClient = errors.New("rratelimiter: no Redis client")
)

// StateError is returned if a key of the limiter holds data that is not a limiter's. Nothing was
// granted. Get it with [errors.As]. SetRate replaces invalid fields and state; Delete removes keys
// of another type.
//
// The zero value describes no error.
type StateError struct {
	Key   string // the Redis key
	Field string // the hash field, "member" for a member of the permits set, or "" for the key itself
	Value string // the invalid value, or the type of the key if the type is wrong
}

// Error returns the key, the field and the invalid value.
func (e *StateError) Error() string {
	where := fmt.Sprintf("key %q", e.Key)
	if e.Field != "" {
		where = fmt.Sprintf("field %q of %s", e.Field, where)
	}
	return fmt.Sprintf("rratelimiter: %s holds %q, which is not a limiter's: repair or delete it", where, e.Value)
}
