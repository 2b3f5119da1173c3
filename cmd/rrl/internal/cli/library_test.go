package cli

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/connect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// inMemory is a Redis in memory, on a clock that goes by hand.
type inMemory struct {
	*testing.T
	server *miniredis.Miniredis
	rueidis.Client
	time time.Time
}

func startMemory(t *testing.T) *inMemory {
	m := &inMemory{T: t, server: miniredis.RunT(t), time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	m.server.SetTime(m.time)
	var err error
	m.Client, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{m.server.Addr()},
		ForceSingleClient: true, DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m
}

func (m *inMemory) now() time.Time { return m.time }

func (m *inMemory) pass(d time.Duration) {
	m.time = m.time.Add(d)
	m.server.SetTime(m.time)
	m.server.FastForward(d)
}

// read reads the limiters of a name.
func (m *inMemory) read(name string) *inspect.Found {
	reader := &inspect.Reader{Redis: &connect.Redis{Client: m.Client, Where: "memory"}, Now: m.now}
	found, err := reader.Of(context.Background(), name, inspect.Search{Pages: 10})
	require.NoError(m, err)
	return found
}

// TestFree_RandomCalls_IsTheLibrarys: the free permits of a Redisson limiter after random calls,
// releases and rate changes.
func TestFree_RandomCalls_IsTheLibrarys(t *testing.T) {
	for seed := range uint64(redistest.Deep(2, 5)) {
		m := startMemory(t)
		random := rand.New(rand.NewPCG(1, seed))
		ctx := context.Background()
		l := rratelimiter.New(m.Client, rratelimiter.WithClock(m.now)).Limiter("x")
		rate := rratelimiter.Rate{Permits: 20, Interval: time.Second}
		require.NoError(t, l.SetRate(ctx, rate))
		for step := range 60 {
			switch n := random.IntN(12); {
			case n < 8:
				_, err := l.TryAcquire(ctx, 1+random.Int64N(4))
				require.NoError(t, err)
			case n == 8:
				require.NoError(t, l.Release(ctx, random.Int64N(5)))
			case n == 9:
				rate.Permits = 10 + random.Int64N(20)
				require.NoError(t, l.SetRate(ctx, rate, rratelimiter.KeepState()))
			case n == 10:
				m.server.Del("{x}:value")
			case n == 11:
				m.pass(time.Duration(random.IntN(1500)) * time.Millisecond)
			}
			m.pass(time.Duration(random.IntN(80)) * time.Millisecond)
			want, err := l.AvailablePermits(ctx)
			require.NoError(t, err)
			found := m.read("x")
			require.Equal(t, want, found.Redisson[0].Pairs[0].Free, "seed %d, step %d", seed, step)
		}
	}
}

// TestTaken_RandomCalls_IsThePolicys: the taken permits of a policy, without its limit.
func TestTaken_RandomCalls_IsThePolicys(t *testing.T) {
	for _, text := range []string{
		"fixed_window:20/1s", "fixed_window:20/1s,aligned", "sliding_window:20/1s", "sliding_window:20/1s,cells=4",
		"sliding_log:20/1s", "token_bucket:20/1s", "leaky_bucket:20/1s,capacity=30",
		"calendar:500/day", "calendar:500/week,in=Asia/Tokyo", "calendar:500/month,in=UTC", "calendar:500/year",
	} {
		given, err := names.ParsePolicy(text)
		require.NoError(t, err)
		about := 0.0
		if given.Stored.Refill == policy.Evenly {
			about = 1 // its refill is known only from the expiry
		}
		m := startMemory(t)
		random := rand.New(rand.NewPCG(2, 0))
		l := limit.New(rratelimiter.New(m.Client, rratelimiter.WithClock(m.now)), "x", given.Policy)
		for step := range redistest.Deep(20, 80) {
			if _, err := l.TryAcquire(t.Context(), 1+random.Int64N(4)); err != nil {
				require.ErrorIs(t, err, rratelimiter.ErrPermitsExceedRate)
			}
			m.pass(time.Duration(random.IntN(200)) * time.Millisecond)
			seen, err := l.Peek(t.Context())
			require.NoError(t, err)
			taken := int64(0)
			if found := m.read("x"); len(found.Policies) > 0 {
				require.Empty(t, found.Policies[0].Wrong)
				require.Equal(t, given.Stored, found.Policies[0].Stored)
				taken = found.Policies[0].Taken
			}
			require.InDelta(t, seen[0].Limit-seen[0].Remaining, taken, about, "%s, step %d", text, step)
		}
	}
}
