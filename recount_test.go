package rratelimiter

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSchedule_Begin_IsDueAfterThePause(t *testing.T) {
	s := new(schedule)
	assert.True(t, s.begin(-5), "the first use")
	assert.False(t, s.begin(1<<40), "a count runs")
	s.end(time.Second)
	assert.False(t, s.begin(994))
	assert.True(t, s.begin(995))
	s.end(time.Second)
	assert.True(t, s.begin(994), "the clock was set back")
	s.set(0, 0) // the rate has changed
	s.end(time.Hour)
	assert.True(t, s.begin(time.Hour.Milliseconds()))
	s.end(time.Hour)
	s.set(2000, time.Second)
	assert.False(t, s.begin(2999), "a call has counted")
	assert.True(t, s.begin(3000))
}

func TestCountPause_Grants_LeaveTheServerNinetyNineHundredths(t *testing.T) {
	assert.Equal(t, 5*time.Second, countPause(10_000, 8192))
	assert.Equal(t, 824200*time.Microsecond, countPause(100, 8192))
	assert.Equal(t, 5*time.Millisecond, countPause(1, 0))
}

// TestRecount_GrantsUpToTheBound_AreCounted: a larger set stays as it is until it is smaller.
func TestRecount_GrantsUpToTheBound_AreCounted(t *testing.T) {
	for grants, drift := range map[int]int64{mostCounted - 1: 0, mostCounted: 0, mostCounted + 1: 700} {
		runWithRedis(t, fmt.Sprint(grants), func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 1 << 20, Interval: time.Hour, KeepAlive: 2 * time.Hour})
			f.fill(l, grants, 1, 70_000, 3)
			f.redissonReleases(700)
			ttls := f.ttls()
			f.recount(l)
			assert.Equal(t, drift, f.drift())
			assert.Len(t, f.members(), grants, "no grant leaves the set")
			assert.Equal(t, ttls, f.ttls(), "a count is no use")
			require.NoError(t, l.Release(t.Context(), 70_000))
			f.recount(l)
			assert.Zero(t, f.drift())
		})
	}
}

// TestRecount_RefundsBeside_NoGrantInUseLeaves: two large grants shrink, one beside each of two counts.
func TestRecount_RefundsBeside_NoGrantInUseLeaves(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 3000, Interval: time.Hour})
		f.fill(l, 700, 1)
		f.granted(l, "a", 500)
		f.granted(l, "b", 500)
		f.fill(l, 300, 1)
		for _, letter := range []string{"a", "b"} {
			f.Latency.Store(int64(time.Millisecond))
			l.wire.hint().counts.set(0, 0)
			f.RequireGranted(l, 1)
			require.NoError(t, f.refund(l, letter, 400, 500))
			f.Latency.Store(0)
			require.NoError(t, l.wire.client.Flush(t.Context()))
		}
		assert.EqualValues(t, 1202, f.sum())
		assert.Len(t, f.members(), 1004)
		f.RequireAvailable(l, 1798)
	})
}

// TestRecount_Changes_AreCorrected: expired grants, whatever the next call removes of them.
func TestRecount_Changes_AreCorrected(t *testing.T) {
	for name, change := range map[string]func(f *fixture){
		"a release of Java": func(f *fixture) { f.redissonReleases(300) },
		"a lower rate":      func(f *fixture) { f.setRate(200) },
		"a higher rate":     func(f *fixture) { f.setRate(2000) },
		"lost permits":      func(f *fixture) { f.RequireNoError(f.Redis.Incr("{limiter}:value", -300)) },
		"a lost set":        func(f *fixture) { f.Redis.Del("{limiter}:permits") },
		"a lost value":      func(f *fixture) { f.Redis.Del("{limiter}:value") },
		"a grant of no permits": func(f *fixture) {
			f.RequireNoError(f.Redis.ZAdd("{limiter}:permits", float64(time.Now().UnixMilli()), member("x", 0)))
		},
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 1000, Interval: 10 * time.Second, KeepAlive: time.Minute})
			f.fill(l, 600, 1)
			change(f)
			time.Sleep(10*time.Second - 301*time.Millisecond) // half of the grants have expired
			f.recount(l)
			assert.Zero(t, f.drift())
			assert.Equal(t, f.Redis.TTL("limiter")+time.Millisecond, f.Redis.TTL("{limiter}:value"))
			inUse := int64(300)
			if name == "a lost set" {
				inUse = 0
			}
			f.RequireAvailable(l, max(0, f.rate()-inUse))
			time.Sleep(10 * time.Second)
			f.RequireGranted(l, f.rate())
			f.RequireDenied(l, 1)
		})
	}
}

// TestCountDrift_Use_CountsInTheBackground: at the first use of a limiter, after half an interval, and if
// the rate has changed. A call that counts a missing value needs no other count.
func TestCountDrift_Use_CountsInTheBackground(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 100, Interval: time.Hour})
		calls := func(want int64, l *Limiter) {
			t.Helper()
			before := f.Scripts.Load()
			f.RequireGranted(l, 1)
			synctest.Wait()
			assert.Equal(t, want, f.Scripts.Load()-before, "calls")
		}
		calls(1, l)
		calls(1, l)
		other := New(f.Conn).Limiter("limiter")
		f.redissonReleases(1)
		calls(2, other)
		assert.Zero(t, f.drift())
		calls(1, other)
		time.Sleep(30*time.Minute - time.Second)
		calls(1, other)
		time.Sleep(time.Second)
		f.redissonReleases(1)
		f.Latency.Store(int64(time.Second))
		began := time.Now()
		f.RequireGranted(other, 1)
		assert.Equal(t, time.Second, time.Since(began), "no caller waits for it")
		require.NoError(t, other.wire.client.Flush(t.Context()))
		assert.Equal(t, 2*time.Second, time.Since(began), "Flush waits for it")
		f.Latency.Store(0)
		assert.Zero(t, f.drift())
		f.setRate(50)
		calls(2, other)
		assert.Zero(t, f.drift())
		calls(1, other)
	})
}

func TestFlush_CountHangs_EndsWithItsContext(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Hour})
		f.RequireGranted(l, 1)
		other := New(f.Conn)
		f.Latency.Store(int64(time.Second))
		f.RequireGranted(other.Limiter("limiter"), 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		require.ErrorIs(t, other.Flush(ctx), context.DeadlineExceeded)
		require.NoError(t, other.Flush(t.Context()))
	})
}

func TestRecount_Fails_CountsAgain(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 1000, Interval: time.Hour})
		f.fill(l, 300, 1)
		f.redissonReleases(50)
		other := New(f.Conn).Limiter("limiter")
		refused := f.Reply("ZCARD", "", func(peer *server.Peer, _ []string) { peer.WriteError("NOPERM") })
		f.RequireGranted(other, 1)
		synctest.Wait()
		assert.Equal(t, 1, *refused)
		f.Reply("none", "", nil)
		time.Sleep(time.Second - time.Millisecond)
		f.RequireGranted(other, 1)
		synctest.Wait()
		assert.EqualValues(t, 50, f.drift())
		time.Sleep(time.Millisecond)
		f.RequireGranted(other, 1)
		synctest.Wait()
		assert.Zero(t, f.drift())
	})
}
