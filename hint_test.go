package rratelimiter

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestScripts_Overall_NameNoKeysOfAClient: while a slot migrates, a cluster refuses a script that
// names a key which does not exist. So no script names the client's own keys for an OVERALL
// limiter, refunds included.
func TestScripts_Overall_NameNoKeysOfAClient(t *testing.T) {
	for kind, want := range map[RateType]int{Overall: sharedKeys, PerClient: len(limiterKeys{})} {
		runWithRedis(t, kind.String(), func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Type: kind, Permits: 10, Interval: time.Hour})
			f.RequireGranted(l, 1) // and then the hint exists
			var mu sync.Mutex
			named := make(map[int]int)
			f.Redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
				if names, _ := redistest.ScriptCall(command, args); names != nil {
					mu.Lock()
					named[len(names)]++
					mu.Unlock()
				}
				return false
			})
			f.RequireGranted(l, 1)
			f.RequireAvailable(l, 8)
			require.NoError(t, l.Release(t.Context(), 1))
			f.Latency.Store(int64(10 * time.Millisecond))
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			_, err := l.TryAcquire(ctx, 3) // refunded
			require.ErrorIs(t, err, context.DeadlineExceeded)
			time.Sleep(time.Second)
			f.Latency.Store(0)
			f.RequireAvailable(l, 9)
			assert.Equal(t, map[int]int{want: 6}, named, "keys of each script call")
		})
	}
}

// TestHints_ManyNames_AreBounded: two generations of hints, and a Limiter keeps its own.
func TestHints_ManyNames_AreBounded(t *testing.T) {
	var s hints
	first := s.of("first")
	for i := range maxHints - 1 {
		s.of(strconv.Itoa(i))
	}
	assert.Same(t, first, s.of("first"))
	s.of("another generation")
	assert.Same(t, first, s.of("first"), "a name in use stays")
	for i := range 2 * maxHints {
		s.of(strconv.Itoa(-i - 1))
	}
	assert.NotSame(t, first, s.of("first"))
	assert.LessOrEqual(t, len(s.current)+len(s.earlier), 2*maxHints)
}

func TestSchedule_Begin_IsDueAfterThePause(t *testing.T) {
	s := new(schedule)
	assert.True(t, s.begin(-5), "the first use")
	assert.False(t, s.begin(1<<40), "a count runs")
	s.end(time.Second, time.Millisecond)
	assert.False(t, s.begin(994))
	assert.True(t, s.begin(995))
	s.end(time.Second, 600*time.Millisecond)
	assert.True(t, s.begin(994), "the clock was set back")
	s.end(time.Second, 600*time.Millisecond)
	s.hurry() // the rate has changed
	assert.False(t, s.begin(1593), "the share of the server's time")
	assert.True(t, s.begin(1594))
	s.hurry() // beside a count, which may have begun before
	s.end(time.Hour, time.Second)
	assert.False(t, s.begin(2593))
	assert.True(t, s.begin(2594))
	s.end(time.Hour, 0)
	s.skip(3000, time.Second, 0)
	assert.False(t, s.begin(3999), "a call has counted")
	assert.True(t, s.begin(4000))
}

func TestCountPauses_Grants_TakeAHundredthOfTheServer(t *testing.T) {
	for _, test := range []struct {
		interval, grants int64
		pause, least     time.Duration
	}{
		{10_000, mostCounted, 5 * time.Second, 824200 * time.Microsecond},
		{100, mostCounted, 824200 * time.Microsecond, 824200 * time.Microsecond},
		{1, 0, 5 * time.Millisecond, 5 * time.Millisecond},
	} {
		pause, least := countPauses(test.interval, test.grants)
		assert.Equal(t, test.pause, pause)
		assert.Equal(t, test.least, least)
	}
}

// TestPages_CallerLeaves_EndsTheCalls: a script that always has more to do is not called for a
// caller that has left.
func TestPages_CallerLeaves_EndsTheCalls(t *testing.T) {
	for _, name := range []string{"AvailablePermits", "Release"} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 10, Interval: time.Hour})
			f.Latency.Store(int64(time.Millisecond))
			f.Reply("EVALSHA", "", func(peer *server.Peer, _ []string) {
				peer.WriteLen(2)
				peer.WriteInt(replyAgain)
				peer.WriteBulk("")
			})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, everyCall(l)[name](ctx), context.DeadlineExceeded)
			time.Sleep(10 * time.Millisecond)
			before := f.Scripts.Load()
			time.Sleep(time.Second)
			assert.Equal(t, before, f.Scripts.Load(), "calls for a caller that has left")
		})
	}
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
