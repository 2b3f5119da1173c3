package rratelimiter

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRecount_CallsAreSlow_RunsToItsEnd: all calls of a count together may take minutes.
func TestRecount_CallsAreSlow_RunsToItsEnd(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 2000, Interval: time.Hour})
		f.fill(l, 1200, 1)
		f.redissonReleases(300)
		time.Sleep(31 * time.Minute)
		before := f.Scripts.Load()
		f.Latency.Store(int64(9 * time.Second))
		f.RequireGranted(l, 1)
		time.Sleep(10 * time.Minute)
		f.Latency.Store(0)
		assert.Greater(t, f.Scripts.Load()-before, int64(7), "more than a minute")
		assert.Zero(t, f.drift())
	})
}

// TestRecount_GoroutineEnds_CountsAgain: by a callback of the program, while the slot moves.
func TestRecount_GoroutineEnds_CountsAgain(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		var exit atomic.Bool
		l := f.limiter(Rate{Permits: 1000, Interval: time.Minute}, WithClock(func() time.Time {
			if exit.Load() {
				runtime.Goexit()
			}
			return time.Now()
		}))
		f.fill(l, 300, 1)
		f.redissonReleases(50)
		moves := f.Reply("EVALSHA", "", func(peer *server.Peer, _ []string) {
			exit.Store(true)
			peer.WriteError("TRYAGAIN the slot moves")
		})
		require.True(t, l.wire.hint().counts.learn(time.Now().UnixMilli(), time.Minute.Milliseconds(), countLarge))
		go l.wire.recount(time.Now())
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Positive(t, *moves)
		exit.Store(false)
		f.Reply("none", "", nil)
		time.Sleep(10 * time.Second)
		f.RequireGranted(l, 1)
		synctest.Wait()
		assert.Zero(t, f.drift())
	})
}

// TestRecount_StateIsReplacedMeanwhile_FreesNothing: the grants that are to be removed are those of
// another state.
func TestRecount_StateIsReplacedMeanwhile_FreesNothing(t *testing.T) {
	const taken, released = 600, 550
	rate := Rate{Permits: 1000, Interval: time.Hour}
	for name, replace := range map[string]func(f *fixture){
		"Rename": func(f *fixture) {
			require.NoError(f, New(f.Conn).Limiter("other").Rename(f.Context(), "limiter"))
		},
		"Copy": func(f *fixture) { f.RequireTrue(New(f.Conn).Limiter("other").Copy(f.Context(), "limiter", Replace())) },
		"type": func(f *fixture) { f.Redis.HSet("limiter", "type", "1") }, // of a client that cannot name these keys
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			client := New(f.Conn)
			l, other := client.Limiter("limiter"), client.Limiter("other")
			require.NoError(t, other.SetRate(t.Context(), rate))
			f.fill(other, taken, 1)
			own := rate
			own.Type = PerClient
			require.NoError(t, l.SetRate(t.Context(), own))
			f.fill(l, taken, 1)
			f.Redis.HSet("limiter", "type", "0")
			f.fill(l, taken, 1)
			f.redissonReleases(released)

			cursor := f.count(l, f.count(l, ""))
			require.Regexp(t, "^cut 294 ", cursor)
			replace(f)
			assert.Equal(t, "done 0", f.recount(l, cursor))
			key := "{limiter}:value"
			if name == "type" {
				key = l.wire.keys[clientValueKey]
			}
			assert.EqualValues(t, rate.Permits-taken, f.Stored(key))
		})
	}
}
