package rratelimiter

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// endsOnceAsked is a context that ends as soon as somebody has been told that it has not.
type endsOnceAsked struct {
	context.Context
	end context.CancelFunc
}

func (c endsOnceAsked) Err() error {
	defer c.end()
	return c.Context.Err()
}

// TestNothingThatIsLeasedIsLostToACallerWhoLeaves: what is taken from those to come goes back, or stays theirs.
func TestNothingThatIsLeasedIsLostToACallerWhoLeaves(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, l *Limiter) error{
		"Flush": func(ctx context.Context, l *Limiter) error { return l.wire.client.Flush(ctx) },
		"a request that needs what is leased": func(ctx context.Context, l *Limiter) error {
			_, err := l.TryAcquire(ctx, 700)
			return err
		},
	} {
		for when, once := range map[string]bool{"before": false, "once it has begun": true} {
			t.Run(name+", "+when, func(t *testing.T) {
				inLease(t, Rate{Permits: 1000, Interval: 10 * time.Second}, func(b *bubble, l *Limiter) {
					b.leasing(l)
					require.Less(b, b.Stored("{limiter}:value"), int64(700), "something is leased")
					b.Latency.Store(0)
					plain := l.wire.client.Limiter("limiter")
					plain.calls.Leases = false
					b.Full(plain, 700)
					synctest.Wait() // which is remembered
					inner, end := context.WithCancel(b.Context())
					ctx := context.Context(endsOnceAsked{inner, end})
					if !once {
						end()
						ctx = inner
					}
					require.ErrorIs(b, call(ctx, l), context.Canceled)
					pass(2 * shortLease)
					b.Free(l, 700)
				}, WithDenialCache(time.Hour))
			})
		}
	}
}

// TestFlushWaitsForWhatGoesBackAlready: a program that ends behind it would keep that from arriving.
func TestFlushWaitsForWhatGoesBackAlready(t *testing.T) {
	for since := time.Millisecond; since < 2*shortLease; since += 200 * time.Microsecond {
		inLease(t, Rate{Permits: 1000, Interval: 10 * time.Second}, func(b *bubble, l *Limiter) {
			b.leasing(l)
			pass(since)
			require.NoError(b, l.wire.client.Flush(b.Context()))
			require.EqualValues(b, 700, b.Stored("{limiter}:value"), "%v after the last call", since)
		})
	}
}
