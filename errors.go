package rratelimiter

import (
	"errors"
	"fmt"
)

// The errors that a caller can act on, for [errors.Is]. What a call returns adds the limiter's name and the value
// that was wrong. Errors of Redis itself stay reachable with [errors.As] (*rueidis.RedisError), and the end of a
// context with errors.Is(err, context.Canceled) or context.DeadlineExceeded.
var (
	// ErrNotInitialized says that the limiter has no rate yet: set one with TrySetRate or SetRate.
	ErrNotInitialized = errors.New("rratelimiter: limiter is not initialized")

	// ErrPermitsExceedRate says that more permits were requested than the rate could ever grant at once.
	ErrPermitsExceedRate = errors.New("rratelimiter: requested permits exceed the rate")

	// ErrInvalidPermits says that a number of permits is below 1 (for Release, below 0) or above 2^53.
	ErrInvalidPermits = errors.New("rratelimiter: invalid number of permits")

	// ErrInvalidRate says that a Rate cannot be kept: see [Rate] for what each field may be.
	ErrInvalidRate = errors.New("rratelimiter: invalid rate")

	// ErrInvalidName says that a limiter's name is empty, as given or as the name mapper made it.
	ErrInvalidName = errors.New("rratelimiter: invalid limiter name")

	// ErrInvalidOption says that an option is none of those that this package defines, or contradicts another.
	ErrInvalidOption = errors.New("rratelimiter: invalid option")

	// ErrCrossSlot says that the keys of a limiter, or of the two limiters of a Rename or Copy, lie in different
	// slots of a Redis Cluster, where no script could change them together.
	ErrCrossSlot = errors.New("rratelimiter: keys do not share a cluster slot")

	// ErrUnsupported says that the server is too old for the call, which changed nothing: Copy needs Redis 6.2, and
	// Expire and ExpireAt with a condition need 7.0.
	ErrUnsupported = errors.New("rratelimiter: the server does not support this call")

	// ErrNoClient says that the Client was made without a Redis client: New(nil), or a zero Client or Limiter.
	ErrNoClient = errors.New("rratelimiter: no Redis client")
)

// StateError says that Redis holds something that is not a limiter's under a key of this limiter. Nothing was
// granted. Get it with [errors.As]. SetRate replaces fields and state that are wrong, Delete takes away keys of another
// type.
//
// The zero value describes nothing.
type StateError struct {
	Key   string // the Redis key
	Field string // the hash field, "member" for a member of the permits set, "" for the key itself
	Value string // what is there: the text, or the type of the key where that is wrong
}

func (e *StateError) Error() string {
	where := fmt.Sprintf("key %q", e.Key)
	if e.Field != "" {
		where = fmt.Sprintf("field %q of %s", e.Field, where)
	}
	return fmt.Sprintf("rratelimiter: %s holds %q, which is not a limiter's: repair or delete it", where, e.Value)
}
