package rratelimiter

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Issue 3, a server that hung for longer than the interval: the grant of a caller that had gone has left the window by the time
// its permits are given back. They are back already, and what is taken now belongs to others.
func TestWhatHasLeftTheWindowIsNotGivenBackTwice(t *testing.T) {
	for name, call := range map[string]func(context.Context, *Limiter) error{
		"TryAcquire": func(ctx context.Context, l *Limiter) error { _, err := l.TryAcquire(ctx, 10); return err },
		"Acquire":    func(ctx context.Context, l *Limiter) error { return l.Acquire(ctx, 10) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				slow := b.limiter(Rate{Permits: 10, Interval: time.Second})
				other := New(b.QuickConn()).Limiter("limiter")
				b.Latency.Store(int64(3 * time.Second))
				ctx, cancel := context.WithTimeout(b.Context(), 500*time.Millisecond)
				defer cancel()
				require.ErrorIs(b, call(ctx, slow), context.DeadlineExceeded)

				// The slow call is carried out after 3 s, as of 0 s; what gives its permits back comes seconds later.
				pass(4 * time.Second)
				var last time.Time
				for range 100 {
					ok, err := other.TryAcquire(b.Context(), 10)
					require.NoError(b, err)
					if ok {
						require.GreaterOrEqual(b, time.Since(last), time.Second, "since the rate was granted before")
						last = time.Now()
					}
					pass(100 * time.Millisecond)
				}
				require.False(b, last.IsZero())
			})
		})
	}
}

// The permits of callers that had gone come back, and those of the others in their call stay taken.
func TestOnlyThePermitsOfThoseWhoHaveGoneAreGivenBack(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Minute})
		b.Latency.Store(int64(time.Second))
		gone, cancel := context.WithTimeout(b.Context(), 500*time.Millisecond)
		defer cancel()
		answer := make(chan error, 1)
		go func() { _, err := l.TryAcquire(gone, 3); answer <- err }()
		b.Take(l, 4)
		require.ErrorIs(b, <-answer, context.DeadlineExceeded)
		pass(2 * time.Second)
		b.Free(l, 6)

		// Once the interval is over for those that stayed, all is free.
		pass(time.Minute)
		b.Take(l, 10)
	})
}
