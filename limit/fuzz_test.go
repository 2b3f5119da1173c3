package limit

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// FuzzState: for any text of a key, a call returns a possible Decision or a *StateError. No call
// makes a valid text invalid.
func FuzzState(f *testing.F) {
	policies := []Policy{
		FixedWindow{10, time.Second, false}, FixedWindow{10, time.Second, true}, Calendar{10, Day, nil},
		SlidingLog{10, time.Second},
		SlidingWindow{10, time.Second, 0}, TokenBucket{10, 3, time.Second}, LeakyBucket{10, 3, time.Second},
		Smooth{Permits: 10, Interval: time.Second}, Smooth{Permits: 10, Interval: time.Second, WarmUp: time.Second},
	}
	for _, text := range []string{
		"", "x", "1763740123456 3", "1763740123456789 3 500000", "1763740123456789003",
		"1763740123456789 12 1 14000000 1763740123456000", "5 1763740123456 2 0", "5 17637401234 17637401234 2",
		"1763740123456 1763840123456 3", "0.5 1763740123456789 0",
		"0.5 1763740123456789 6000000 1763740129456789 1763740123456000", "10 9007199254740993 9007199254740993",
		"9007199254740993 9007199254740993 9007199254740993", "1e400 1",
		"99999999999999999999 99999999999999999999",
	} {
		for kind := range policies {
			f.Add(uint8(kind), text, "1763740123450 2")
		}
	}
	b := newBench(f)
	ctx := context.Background()
	f.Fuzz(func(t *testing.T, kind uint8, text, other string) {
		p := policies[int(kind)%len(policies)]
		l := New(b.client, "name", p)
		b.redis.FlushAll()
		switch p.(type) {
		case SlidingLog:
			b.redis.Push(l.keys[0], text, other)
		case SlidingWindow:
			b.redis.HSet(l.keys[0], "m", text, "3", other)
		default:
			require.NoError(t, b.redis.Set(l.keys[0], text))
		}
		for range 2 {
			for name, call := range map[string]func() (rratelimiter.Decision, error){
				"Take":   func() (rratelimiter.Decision, error) { return l.Take(ctx, 2) },
				"Charge": func() (rratelimiter.Decision, error) { return l.Charge(ctx, 3) },
				"Release": func() (rratelimiter.Decision, error) {
					return rratelimiter.Decision{}, l.Release(ctx, 1)
				},
				"Peek": func() (rratelimiter.Decision, error) {
					all, err := l.Peek(ctx)
					if err != nil {
						return rratelimiter.Decision{}, err
					}
					return all[0], nil
				},
			} {
				d, err := call()
				var state *rratelimiter.StateError
				if errors.As(err, &state) {
					continue
				}
				require.NoError(t, err, "%s of %T after %q, %q", name, p, text, other)
				require.GreaterOrEqual(t, d.Remaining, int64(0), "%s of %T after %q, %q: %+v", name, p, text, other, d)
				require.GreaterOrEqual(t, d.RetryAfter, time.Duration(0), "%s of %T after %q, %q: %+v", name, p, text, other, d)
				require.GreaterOrEqual(t, d.ResetAfter, time.Duration(0), "%s of %T after %q, %q: %+v", name, p, text, other, d)
			}
		}
	})
}
