package rratelimiter

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestHints_ManyNames_AreBounded: two generations of hints, and a Limiter keeps its own.
func TestHints_ManyNames_AreBounded(t *testing.T) {
	var s hints
	first := s.hintOf("first")
	for i := range maxHints - 1 {
		s.hintOf(strconv.Itoa(i))
	}
	assert.Same(t, first, s.hintOf("first"))
	s.hintOf("another generation")
	assert.Same(t, first, s.hintOf("first"), "a name in use stays")
	for i := range 2 * maxHints {
		s.hintOf(strconv.Itoa(-i - 1))
	}
	assert.NotSame(t, first, s.hintOf("first"))
	assert.LessOrEqual(t, len(s.current)+len(s.earlier), 2*maxHints)
}

func TestSchedule_Begin_IsDueAfterThePause(t *testing.T) {
	s, start := new(schedule), time.Now()
	at := func(ms int64) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	assert.True(t, s.begin(at(0)), "the first use")
	assert.False(t, s.begin(at(1<<40)), "a count runs")
	s.end(time.Second, time.Millisecond)
	assert.False(t, s.begin(at(999)))
	assert.True(t, s.begin(at(1000)))
	s.end(time.Second, 600*time.Millisecond)
	s.hurry() // the rate has changed
	assert.False(t, s.begin(at(1599)), "the share of the server's time")
	assert.True(t, s.begin(at(1600)))
	s.hurry() // beside a count, which may have begun before
	s.end(time.Hour, time.Second)
	assert.False(t, s.begin(at(2599)))
	assert.True(t, s.begin(at(2600)))
	s.end(time.Hour, 0)
	s.skip(at(3000), time.Second, 0)
	assert.False(t, s.begin(at(3999)), "a call has counted")
	assert.True(t, s.begin(at(4000)))
}

// TestCountPauses_Grants_TakeAHundredthOfTheServer: a count of 8192 takes at most 8242 µs.
func TestCountPauses_Grants_TakeAHundredthOfTheServer(t *testing.T) {
	const hundred = 100 * 8242 * time.Microsecond
	for interval, pauses := range map[int64][2]time.Duration{10_000: {5 * time.Second, hundred}, 100: {hundred, hundred}} {
		pause, least := recountPauses(1<<53, interval)
		assert.Equal(t, pauses, [2]time.Duration{pause, least})
	}
}

// TestPages_CallerLeaves_EndsTheCalls: a script that always has more to do is not called for a
// caller that has left.
func TestPages_CallerLeaves_EndsTheCalls(t *testing.T) {
	for _, name := range []string{"AvailablePermits", "Release", "Drain"} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 10, Interval: time.Hour})
			f.Latency.Store(int64(time.Millisecond))
			f.Reply("EVALSHA", "", func(peer *server.Peer, _ []string) {
				peer.WriteLen(2)
				peer.WriteInt(replyAgain)
				peer.WriteBulk("")
			})
			ctx := redistest.Timeout(t, 20*time.Millisecond)
			require.ErrorIs(t, everyCall(l)[name](ctx), context.DeadlineExceeded)
			time.Sleep(10 * time.Millisecond)
			before := f.Scripts.Load()
			time.Sleep(time.Second)
			assert.Equal(t, before, f.Scripts.Load(), "calls for a caller that has left")
		})
	}
}

// TestWithDenialCache_LimiterChanges_DenialIsForgotten: also if the caller of the change has left,
// once the server has answered.
func TestWithDenialCache_LimiterChanges_DenialIsForgotten(t *testing.T) {
	t.Parallel()
	hour := Rate{Permits: 10, Interval: time.Hour}
	changes := map[string]func(ctx context.Context, c *Client) error{
		"Rename to another": func(ctx context.Context, c *Client) error {
			return c.Limiter("limiter").Rename(ctx, "elsewhere")
		},
		"Rename onto it": func(ctx context.Context, c *Client) error { return c.Limiter("full").Rename(ctx, "limiter") },
		"Copy onto it": func(ctx context.Context, c *Client) error {
			return redistest.Err(c.Limiter("full").Copy(ctx, "limiter", Replace()))
		},
		"Expire": func(ctx context.Context, c *Client) error { return redistest.Err(c.Limiter("limiter").Expire(ctx, 0)) },
	}
	for _, name := range []string{"Release", "SetRate", "SetRate keep", "UpdateRate", "ExpireAt", "Delete", "Unlink"} {
		changes[name] = func(ctx context.Context, c *Client) error {
			return everyCallWith(c.Limiter("limiter"), 1, hour)[name](ctx)
		}
	}
	for name, change := range changes {
		for kind, timeout := range map[string]time.Duration{"": time.Hour, ", caller left": 50 * time.Millisecond} {
			runWithRedis(t, name+kind, func(t *testing.T, f *fixture) {
				client := New(f.Conn, WithDenialCache(time.Hour))
				l := client.Limiter("limiter")
				require.NoError(t, l.SetRate(t.Context(), hour))
				require.NoError(t, client.Limiter("full").SetRate(t.Context(), hour))
				f.RequireGranted(l, 10)
				f.RequireDenied(l, 1)
				synctest.Wait()
				calls := f.Scripts.Load()
				f.RequireDenied(l, 1)
				require.Equal(t, calls, f.Scripts.Load(), "from memory")
				f.Latency.Store(int64(100 * time.Millisecond))
				ctx := redistest.Timeout(t, timeout)
				err := change(ctx, client)
				if timeout < time.Hour {
					require.ErrorIs(t, err, context.DeadlineExceeded)
					time.Sleep(time.Second)
				} else {
					require.NoError(t, err)
				}
				calls = f.Scripts.Load()
				_, _ = l.TryAcquire(t.Context(), 1)
				assert.Greater(t, f.Scripts.Load(), calls)
			})
		}
	}
}

// drift returns value + permits in the set - rate.
func (f *fixture) drift() int64 {
	f.Helper()
	synctest.Wait() // a prefetch that arrives between the two reads below would look like drift
	value := f.Stored("{limiter}:value")
	return value + f.sum() - f.rate()
}

// redissonReleases raises the value and leaves the grants.
func (f *fixture) redissonReleases(permits int64) {
	f.Helper()
	value := f.Stored("{limiter}:value")
	f.RequireNoError(f.Redis.Incr("{limiter}:value", int(min(f.rate()-value, permits))))
}

// redissonShrinks takes permits off the grants and raises the value, as the release of Redisson's main branch does:
// the oldest grants first, expired ones too. It leaves drift only if the value is missing.
func (f *fixture) redissonShrinks(permits int64) {
	f.Helper()
	value := f.rate()
	if f.Redis.Exists("{limiter}:value") {
		value = f.Stored("{limiter}:value")
	}
	raised := min(f.rate(), value+permits)
	set, _ := f.Redis.SortedSet("{limiter}:permits")
	grants := maps.Clone(set)
	members := slices.SortedFunc(maps.Keys(grants), func(a, b string) int {
		return cmp.Or(cmp.Compare(grants[a], grants[b]), cmp.Compare(a, b))
	})
	for _, member := range members {
		if permits == 0 {
			break
		}
		held, _ := inside.PermitsOf(member)
		f.RequireNoError(f.Redis.ZRem("{limiter}:permits", member))
		if held > permits {
			f.RequireNoError(f.Redis.ZAdd("{limiter}:permits", grants[member], memberOf(grantOf(member), held-permits)))
		}
		permits -= min(held, permits)
	}
	require.NoError(f, f.Redis.Set("{limiter}:value", strconv.FormatInt(raised, 10)))
}

// countedNow lets the next count of drift wait for an hour.
func (f *fixture) countedNow(l *Limiter) {
	l.protocol.hint().recounts.skip(time.Now(), time.Hour, time.Hour)
}

// recount counts the permits of a limiter.
func (f *fixture) recount(l *Limiter) {
	f.Helper()
	_, _, err := l.protocol.recount(f.Context(), l.protocol.client.nowText(), false)
	require.NoError(f, err)
}

// TestSetRate_LongQueue_LearnsOfALowerRateAtOnce: the callers who cannot be served in time are denied.
func TestSetRate_LongQueue_LearnsOfALowerRateAtOnce(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		const waiters = 3000 // more than are checked behind each reply
		l := f.limiter(Rate{Permits: waiters / 3, Interval: 10 * time.Second})
		var all sync.WaitGroup
		var denied atomic.Int64
		for range waiters {
			all.Go(func() {
				granted, err := l.TryAcquireWithin(t.Context(), 1, 25*time.Second)
				assert.NoError(t, err)
				if !granted {
					denied.Add(1)
				}
			})
		}
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, l.SetRate(t.Context(), Rate{Permits: 1, Interval: 10 * time.Second}))
		time.Sleep(time.Second)
		assert.GreaterOrEqual(t, denied.Load(), int64(waiters*2/3-3), "all but those who are served in time")
		all.Wait()
	})
}
