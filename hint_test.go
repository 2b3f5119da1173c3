package rratelimiter

import (
	"context"
	"fmt"
	"strconv"
	"sync"
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

// TestSchedule_Count_IsDueOncePerInterval: one call counts at a time, another one in its place after
// a second.
func TestSchedule_Count_IsDueOncePerInterval(t *testing.T) {
	const interval = 80_000
	s := new(schedule)
	check := func(now int64, want bool) {
		t.Helper()
		assert.Equal(t, want, s.claim(now, interval), "at %d", now)
	}
	check(1, true)
	s.learn(1, interval, countDone)
	check(39_999, false)
	check(40_001, true)
	check(40_002, false) // a call counts
	s.learn(40_003, interval, notCounted)
	check(41_000, false)
	check(41_001, true) // it has not been answered
	assert.True(t, s.learn(41_002, interval, countLarge))
	check(1<<40, false) // recount.lua runs
	assert.False(t, s.learn(41_003, interval, countLarge), "it runs once")
	s.end(41_004, interval, false)
	check(46_003, false)
	check(46_004, true)
	s.end(46_005, interval, true)
	check(86_004, false)
	check(86_005, true)
	s.learn(86_005, interval, countDone)
	check(86_005-interval, true) // the clock was set back
	s.learn(-5, interval, countDue)
	check(-5, true) // the call before could not count
	s.learn(0, 100, countDue)
	assert.True(t, s.claim(interval, 100))
	assert.False(t, s.claim(interval+99, 100))
	assert.True(t, s.claim(interval+100, 100), "a count that is not answered delays the next by an interval at most")
}

// TestHints_ManyNames_AreBounded: two generations of hints, and a Limiter keeps its own.
func TestHints_ManyNames_AreBounded(t *testing.T) {
	var s hints
	first := s.of("first")
	for i := range maxHints - 1 {
		s.of(fmt.Sprint(i))
	}
	assert.Same(t, first, s.of("first"))
	s.of("another generation")
	assert.Same(t, first, s.of("first"), "a name in use stays")
	for i := range 2 * maxHints {
		s.of(fmt.Sprint("x", i))
	}
	assert.NotSame(t, first, s.of("first"))
	assert.LessOrEqual(t, len(s.current)+len(s.earlier), 2*maxHints)
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

// TestDrift_CallThatCannotCount_PassesItOn: a call that leaves before the count reports that the
// next call is to count.
func TestDrift_CallThatCannotCount_PassesItOn(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 1000, Interval: 10 * time.Second})
		f.fill(l, 900, 1)
		assert.Equal(t, countDue, f.counted(l, "", 1001), "above the rate")
		assert.Equal(t, notCounted, f.counted(l, f.hint(), 1001))
		assert.Equal(t, countLarge, f.counted(l, "", 1))

		time.Sleep(10*time.Second - 300*time.Millisecond) // 600 have expired
		assert.Equal(t, countDue, f.counted(l, "", 1), "more expired grants than a page")
		assert.Zero(t, f.drift())
	})
}

// TestDrift_GrantsAreRemovedOverSeveralCalls_CountFollows: the value is right from the first of
// these calls on, and only grants that are older than that call are removed.
func TestDrift_GrantsAreRemovedOverSeveralCalls_CountFollows(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 1500, Interval: time.Hour})
		f.fill(l, 1500, 1)
		f.redissonReleases(700)
		found := f.count(l, "")
		assert.Regexp(t, "^found 700\n", found)
		assert.EqualValues(t, 700, f.drift(), "nothing changes before it is confirmed")
		cut := f.count(l, found)
		assert.Regexp(t, "^cut 444 9466848[0-9]*\n", cut)
		assert.Zero(t, f.drift())
		assert.Equal(t, "done 1", f.count(l, ""), "another client finds no drift")
		cut = f.recount(l, cut)
		assert.Regexp(t, "^cut 188 9466848[0-9]*\n", cut)
		assert.Zero(t, f.drift())
		assert.Equal(t, "done 0", f.recount(l, cut))
		assert.Zero(t, f.drift())
		assert.Equal(t, "done 1", f.count(l, ""))

		old := "cut 100 " + strconv.FormatInt(time.Now().Add(-time.Minute).UnixMilli(), 10)
		before := f.Stored("{limiter}:value")
		assert.Equal(t, "done 0", f.recount(l, old), "no grant is as old")
		assert.Equal(t, before, f.Stored("{limiter}:value"))
	})
}

// TestDrift_RefundWhileCounted_TakesNoGrantInUse: a refund shrinks a grant that is counted already.
// The count finds an excess that there is not, and no grant that is in use leaves the set for it.
func TestDrift_RefundWhileCounted_TakesNoGrantInUse(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 3000, Interval: time.Hour})
		f.fill(l, 600, 1)
		f.granted(l, "a", 600)
		f.fill(l, 600, 1)
		cursor := ""
		for range 3 {
			cursor = f.recount(l, cursor)
		}
		require.NoError(t, f.refund(l, "a", 599, 600))
		cursor = f.count(l, cursor)
		assert.Regexp(t, "^found 599\n", cursor)
		assert.Equal(t, "done 1", f.count(l, cursor))
		assert.Zero(t, f.drift())
	})
}
