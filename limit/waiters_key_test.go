package limit

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// waitersKeys returns the keys of Clients whose callers wait.
func (f *fixture) waitersKeys() []string {
	return slices.DeleteFunc(f.Redis.Keys(), func(key string) bool { return !strings.Contains(key, ":waiters:") })
}

// refuseWaiters refuses a command on these keys, or all.
func (f *fixture) refuseWaiters(command string) {
	f.Redis.Server().SetPreHook(func(peer *server.Peer, called string, args ...string) bool {
		refused := (command == "" || strings.EqualFold(called, command)) &&
			slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, ":waiters:") })
		if refused {
			peer.WriteError("NOPERM No permissions to access a key")
		}
		return refused
	})
}

// TestAcquire_WaitersKey_IsOfWaitersOnly, in the slot of the limiter, and expires after them.
func TestAcquire_WaitersKey_IsOfWaitersOnly(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(f.client, "name", FixedWindow{Permits: 2, Interval: time.Hour})
		require.True(t, redistest.Result(t, l.TryAcquire, 1))
		_ = redistest.Result(t, l.Take, 1)
		assert.Empty(t, f.waitersKeys())
		assert.False(t, tryWithin(t, l, 1, time.Second))
		keys := f.waitersKeys()
		require.Len(t, keys, 1)
		assert.True(t, strings.HasPrefix(keys[0], "{name}:waiters:"), keys[0])
		time.Sleep(10 * time.Second)
		assert.Empty(t, f.waitersKeys())
	})
}

// TestAcquire_RedissonJoined_ClientsShareTheKey: some keys of its layout are of one Client.
func TestAcquire_RedissonJoined_ClientsShareTheKey(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		rate := rratelimiter.InitialRate(rratelimiter.Rate{Permits: 1, Interval: time.Hour})
		for range 2 {
			l := Join(rratelimiter.New(f.Conn).Limiter("name", rate))
			tryWithin(t, l, 1, time.Minute)
		}
		time.Sleep(time.Second)
		for range 2 {
			l := Join(rratelimiter.New(f.Conn).Limiter("name", rate))
			assert.False(t, tryWithin(t, l, 1, time.Second))
		}
		assert.Len(t, f.waitersKeys(), 1)
	})
}

// TestAcquire_WaitersKeyIsUnusable_DecidesWithoutIt: the key is lost, has another type or members that no
// Client writes. Or the user has no rights for it, or only for some commands, as one of an InFlight with TIME.
func TestAcquire_WaitersKeyIsUnusable_DecidesWithoutIt(t *testing.T) {
	t.Parallel()
	spoils := map[string]func(f *fixture, key string){
		"lost":         func(f *fixture, key string) { f.Redis.Del(key) },
		"another type": func(f *fixture, key string) { f.Redis.Del(key); _ = f.Redis.Set(key, "text") },
		"other members": func(f *fixture, key string) {
			f.Redis.Del(key)
			for _, member := range []string{"a", "b!", "", "clock", "all"} {
				_, _ = f.Redis.ZAdd(key, 1e300, member)
				_, _ = f.Redis.ZAdd(key, -5, member+"x")
			}
		},
		"refused": func(f *fixture, _ string) { f.refuseWaiters("") },
	}
	for _, command := range []string{"ZRANGEBYSCORE", "ZSCORE", "ZCOUNT", "ZRANK", "ZADD", "ZREM", "PEXPIRE"} {
		spoils[command+" refused"] = func(f *fixture, _ string) { f.refuseWaiters(command) }
	}
	for name, spoil := range spoils {
		for _, limiter := range []string{"FixedWindow", "TokenBucket", "InFlight", "Redisson's layout"} {
			runWithRedis(t, name+", "+limiter, func(t *testing.T, f *fixture) {
				done := make(chan struct{})
				defer close(done)
				go func() {
					for {
						for _, key := range f.waitersKeys() {
							spoil(f, key)
						}
						select {
						case <-done:
							return
						case <-time.After(100 * time.Millisecond):
						}
					}
				}()
				got := shares(t, f.Fixture, 5*time.Second, daily[limiter].open, site{}, site{})
				least := int64(195)
				if name == "ZSCORE refused" {
					least = 160
				} else if limiter == "Redisson's layout" {
					least = 180
				}
				assert.GreaterOrEqual(t, got.sum(), least)
			})
		}
	}
}

// TestAcquire_ClientsWaitOnce_KeyStaysSmall: each Client waits once, beside others that are never overdue, as the
// programs of a function service do. The key has those of the last eight seconds, and not all.
func TestAcquire_ClientsWaitOnce_KeyStaysSmall(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		open := func() *Limiter {
			return New(rratelimiter.New(f.Conn), "name", FixedWindow{Permits: 10, Interval: time.Minute})
		}
		for range 10 {
			go func() { _ = open().Acquire(t.Context(), 10) }()
		}
		const perSecond, most = 20, 8 * time.Second
		for range 3 * perSecond * int(most/time.Second) {
			time.Sleep(time.Second / perSecond)
			assert.False(t, tryWithin(t, open(), 1, time.Second))
		}
		members, err := f.Redis.ZMembers(f.waitersKeys()[0])
		require.NoError(t, err)
		assert.LessOrEqual(t, len(members), 2*(perSecond*int(most/time.Second)+10)+2)
	})
}
