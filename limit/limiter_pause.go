package limit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// ErrNotPausable is returned by Pause of a limiter without a [Pause].
var ErrNotPausable = errors.New("limit: the limiter has no Pause")

// Pause denies everything for a time from now on, in all processes that share the limiter. A longer
// pause stays, and a time above Most of the limiter's [Pause] is cut to Most. 0 ends the pause at
// once, and what follows it. Pause takes no permits and returns none.
//
// Callers of Acquire and TryAcquireWithin wait for the end. If another Client ends the pause, they
// learn it within five seconds. A call that is under way when the pause begins may be granted.
// Leases of this Client end before the pause is sent; those of other Clients serve their callers up
// to their end, for [rratelimiter.WithLease] at most a second. Other Clients with a denial cache
// learn that a pause was ended when their denial is too old.
//
// A pause of a Join is one of each member with a Pause. If their Most differ, the shortest counts.
// Reset ends a pause.
//
// Errors: [ErrNotPausable]; [rratelimiter.ErrInvalidOption] for a time below 0;
// *[rratelimiter.StateError] if the key holds other data. If Redis fails during the call, the pause
// may have begun.
func (l *Limiter) Pause(ctx context.Context, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%w: a pause of %v for %q, want 0 or more", rratelimiter.ErrInvalidOption, d, l.Name())
	}
	if err := l.check(ctx); err != nil {
		return err
	}
	var keys []string
	for _, m := range l.wire.members {
		if p, ok := m.policy.(Pause); ok {
			keys, d = append(keys, m.keys...), min(d, p.Most)
		}
	}
	if keys == nil {
		return fmt.Errorf("%w: open %q with a Pause beside its policies", ErrNotPausable, l.Name())
	}
	// Rounded up, so that a short pause does not end one.
	length := strconv.FormatInt(int64((d+time.Microsecond-1)/time.Microsecond), 10)
	_, err := engine.Change(ctx, l.wire.plan.client.Engine, keys,
		func(ctx context.Context) (rueidis.RedisMessage, error) {
			return l.wire.run(ctx, pause, []string{length})
		})
	return err
}
