package rratelimiter

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Denials of which Redis tells changes. The Redis in memory lets clients keep a cache and tells them of nothing: what each
// kind of change ends is in integration/denials.

// caches makes clients that keep a cache.
func (b *bubble) caches() func() *looked {
	b.redis.Server().SetPreHook(func(p *server.Peer, command string, args ...string) bool {
		if strings.EqualFold(command, "EVALSHA") {
			b.scripts.Add(1)
		}
		if tracks := strings.EqualFold(command, "CLIENT") && len(args) > 0 && !strings.HasPrefix(strings.ToUpper(args[0]), "SET"); !tracks {
			return false
		}
		p.WriteOK()
		return true
	})
	return func() *looked {
		conn, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{"in-memory"}, ForceSingleClient: true,
			DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return b.redis.Dial() },
		})
		require.NoError(b, err)
		b.Cleanup(conn.Close)
		return &looked{Client: conn, call: func(int64) {}}
	}
}

// TestADenialEndsWhereTheCacheIsNoLongerOfIt: where something has left it since, or somebody else has read another state into it.
func TestADenialEndsWhereTheCacheIsNoLongerOfIt(t *testing.T) {
	for name, lost := range map[string]bool{"lost": true, "of another state": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				cache := b.caches()
				conn, other := cache(), cache()
				l := New(conn, WithDenialCache()).Limiter("limiter")
				require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 10, Interval: time.Hour}))
				b.take(l, 10)
				b.full(l, 5)
				synctest.Wait()
				asked := b.scripts.Load()
				for range 100 {
					pass(2 * time.Millisecond)
					b.full(l, 5)
				}
				require.Equal(b, asked, b.scripts.Load(), "calls of Redis while nothing is told")

				there := New(other, WithDenialCache(), WithClientID(uuid.MustParse(l.client.ID()))).Limiter("limiter")
				require.NoError(b, there.Release(b.Context(), 7))
				if !lost {
					b.full(there, 9)
					synctest.Wait()
					_, denied := b.remembered(there, 9)
					require.True(b, denied, "its cache holds the new state")
				}
				conn.Client = other.Client
				pass(2 * time.Millisecond)
				b.take(l, 5)
			})
		})
	}
}

// TestThatThereIsACacheIsFoundOutOnce: where a limiter changes all the time then, that is no reason to do without.
func TestThatThereIsACacheIsFoundOutOnce(t *testing.T) {
	inBubble(t, func(b *bubble) {
		conn := b.caches()()
		l := New(conn, WithDenialCache()).Limiter("limiter")
		require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 10, Interval: time.Hour}))
		b.take(l, 10)
		b.full(l, 5)
		synctest.Wait()
		_, denied := b.remembered(l, 5)
		require.True(b, denied)

		cache := conn.Client
		conn.Client = b.conn // never from the cache, as what has just changed
		b.full(l, 4)
		synctest.Wait()
		_, denied = b.remembered(l, 4)
		assert.False(b, denied)
		synctest.Wait()
		conn.Client = cache
		b.full(l, 3)
		synctest.Wait()
		looks := conn.looks.Load()
		pass(2 * time.Millisecond)
		b.full(l, 3)
		assert.Equal(b, looks+1, conn.looks.Load(), "looks whether Redis has told")
	})
}

// TestACacheIsFoundWhateverChanges: others who touch a limiter all the time, at first, are no reason to take it that Redis tells of nothing.
func TestACacheIsFoundWhateverChanges(t *testing.T) {
	inBubble(t, func(b *bubble) {
		cache := b.caches()
		conn := cache()
		l := New(conn, WithDenialCache()).Limiter("limiter")
		require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 10, Interval: time.Hour}))
		b.take(l, 10)
		conn.call = func(int64) { conn.Client = cache().Client } // which has nothing of what was read before
		b.full(l, 5)
		synctest.Wait()
		_, denied := b.remembered(l, 5)
		assert.False(b, denied)

		synctest.Wait()
		conn.call = func(int64) {}
		b.full(l, 5)
		synctest.Wait()
		looks := conn.looks.Load()
		pass(2 * time.Millisecond)
		b.full(l, 5)
		assert.Equal(b, looks+1, conn.looks.Load(), "looks whether Redis has told")
	})
}
