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

// fill takes so many permits, each by a call of its own.
func (b *fixture) fill(l *Limiter, permits int) {
	b.Helper()
	for range permits {
		b.Take(l, 1)
		pass(time.Millisecond)
	}
}

// TestRecount_CallsAreSlow_RunsToItsEnd: all calls of a count together may take minutes.
func TestRecount_CallsAreSlow_RunsToItsEnd(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 2000, Interval: time.Hour})
		b.fill(l, 1200)
		b.redissonReleases(300)
		pass(31 * time.Minute)
		before := b.Scripts.Load()
		b.Latency.Store(int64(9 * second))
		b.Take(l, 1)
		pass(10 * time.Minute)
		b.Latency.Store(0)
		assert.Greater(b, b.Scripts.Load()-before, int64(7), "more than a minute")
		assert.Zero(b, b.drift())
	})
}

// TestRecount_GoroutineEnds_CountsAgain: by a callback of the program, while the slot moves.
func TestRecount_GoroutineEnds_CountsAgain(t *testing.T) {
	withRedis(t, func(b *fixture) {
		var exit atomic.Bool
		l := b.limiter(Rate{Permits: 1000, Interval: time.Minute}, WithClock(func() time.Time {
			if exit.Load() {
				runtime.Goexit()
			}
			return time.Now()
		}))
		b.fill(l, 300)
		b.redissonReleases(50)
		moves := b.Reply("EVALSHA", "", func(peer *server.Peer, _ []string) {
			exit.Store(true)
			peer.WriteError("TRYAGAIN the slot moves")
		})
		require.True(b, l.wire.hint().counts.learn(time.Now().UnixMilli(), time.Minute.Milliseconds(), countLarge))
		go l.wire.recount(time.Now())
		pass(second)
		synctest.Wait()
		assert.Positive(b, *moves)
		exit.Store(false)
		b.Reply("none", "", nil)
		pass(10 * second)
		b.Take(l, 1)
		synctest.Wait()
		assert.Zero(b, b.drift())
	})
}

// TestRecount_StateIsReplacedMeanwhile_FreesNothing: the grants that are to be removed are those of
// another state.
func TestRecount_StateIsReplacedMeanwhile_FreesNothing(t *testing.T) {
	const taken, released = 600, 550
	rate := Rate{Permits: 1000, Interval: time.Hour}
	for name, replace := range map[string]func(b *fixture){
		"Rename": func(b *fixture) {
			require.NoError(b, New(b.Conn).Limiter("other").Rename(b.Context(), "limiter"))
		},
		"Copy": func(b *fixture) { b.yes(New(b.Conn).Limiter("other").Copy(b.Context(), "limiter", Replace())) },
		"type": func(b *fixture) { b.Redis.HSet("limiter", "type", "1") }, // of a client that cannot name these keys
	} {
		runWithRedis(t, name, func(b *fixture) {
			client := New(b.Conn)
			l, other := client.Limiter("limiter"), client.Limiter("other")
			require.NoError(b, other.SetRate(b.Context(), rate))
			b.fill(other, taken)
			own := rate
			own.Type = PerClient
			require.NoError(b, l.SetRate(b.Context(), own))
			b.fill(l, taken)
			b.Redis.HSet("limiter", "type", "0")
			b.fill(l, taken)
			b.redissonReleases(released)

			cursor := b.count(l, b.count(l, ""))
			require.Regexp(b, "^cut 294 ", cursor)
			replace(b)
			assert.Equal(b, "done 0", b.recount(l, cursor))
			key := "{limiter}:value"
			if name == "type" {
				key = l.wire.keys[clientValueKey]
			}
			assert.EqualValues(b, rate.Permits-taken, b.Stored(key))
		})
	}
}
