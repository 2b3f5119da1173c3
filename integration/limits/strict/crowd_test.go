// Package strict_test has callers of two Clients share one limiter of package limit. It records every
// grant in the replies of Redis, and compares the records with the promise of the policy.
package strict_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

const (
	clients = 2
	callers = 64 // of each client
)

// length is the duration of each crowd: STRICT, by default several windows of each policy.
var length = env.Duration("STRICT", 500*time.Millisecond)

// scene is two Clients on one server, each with a tap.
type scene struct {
	*testing.T
	taps    []*tap
	clients []*rratelimiter.Client
}

// newScene returns Clients with a clock, or with the server's clock.
func newScene(t *testing.T, server *servers.Server, clock func() time.Time) *scene {
	s := &scene{T: t}
	option := rratelimiter.WithServerTime()
	if clock != nil {
		option = rratelimiter.WithClock(clock)
	}
	for range clients {
		redis := server.Client(t)
		tapped := &tap{Client: redis, t: t, clock: clock, timed: make(map[string]string)}
		s.taps = append(s.taps, tapped)
		s.clients = append(s.clients, rratelimiter.New(tapped, option))
	}
	return s
}

// open returns a limiter for each Client.
func (s *scene) open(policies ...limit.Policy) (limiters []*limit.Limiter) {
	for _, c := range s.clients {
		limiters = append(limiters, limit.New(c, "crowded", policies...))
	}
	return limiters
}

// way is a call that takes permits.
type way func(context.Context, *limit.Limiter, int64) (bool, error)

var (
	tryAcquire way = func(ctx context.Context, l *limit.Limiter, permits int64) (bool, error) {
		return l.TryAcquire(ctx, permits)
	}
	take way = func(ctx context.Context, l *limit.Limiter, permits int64) (bool, error) {
		d, err := l.Take(ctx, permits)
		return d.Allowed, err
	}
	takeEach way = func(ctx context.Context, l *limit.Limiter, permits int64) (bool, error) {
		all, err := l.TakeEach(ctx, permits)
		for _, d := range all {
			if !d.Allowed {
				return false, err
			}
		}
		return len(all) > 0, err
	}
	acquire way = func(ctx context.Context, l *limit.Limiter, permits int64) (bool, error) {
		err := l.Acquire(ctx, permits)
		return err == nil, err
	}
)

// crowd has all callers take permits, each by one of the ways, for a time and at least three times.
// The function now returns the limiters, one for each Client. crowd returns the grants of Redis.
func (s *scene) crowd(length time.Duration, now func() []*limit.Limiter, ways ...way) []grant {
	s.Helper()
	end := time.Now().Add(length)
	var all sync.WaitGroup
	var granted atomic.Int64 // by the replies that callers got
	for i := range clients * callers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 0))
			for tries := 0; tries < 3 || time.Now().Before(end); tries++ {
				permits := 1 + random.Int64N(3)
				ok, err := ways[i/clients%len(ways)](context.Background(), now()[i%clients], permits)
				if !assert.NoError(s, err) {
					return
				}
				if ok {
					granted.Add(permits)
				} else {
					time.Sleep(time.Duration(random.Int64N(int64(2 * time.Millisecond))))
				}
			}
		})
	}
	all.Wait()
	grants := seen(s, s.taps...)
	var permits int64
	for _, g := range grants {
		permits += g.permits
	}
	require.Equal(s, granted.Load(), permits, "what callers were granted, and what Redis replied")
	require.NotEmpty(s, grants)
	return grants
}

// always returns the same limiters at any time.
func always(limiters []*limit.Limiter) func() []*limit.Limiter {
	return func() []*limit.Limiter { return limiters }
}
