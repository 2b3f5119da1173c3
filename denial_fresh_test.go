package rratelimiter

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// looked calls back before a client looks at a limiter through its cache, the n-th time, counted from 1.
type looked struct {
	rueidis.Client
	looks atomic.Int64
	call  func(n int64)
}

func (c *looked) DoMultiCache(ctx context.Context, multi ...rueidis.CacheableTTL) []rueidis.RedisResult {
	c.call(c.looks.Add(1))
	return c.Client.DoMultiCache(ctx, multi...)
}

// Issue 9, point 5: whatever this client changes is forgotten once the server has answered, whoever still listens.
func TestAChangeIsForgottenWhoeverStillListens(t *testing.T) {
	hour := Rate{Permits: 10, Interval: time.Hour}
	for name, change := range map[string]func(context.Context, *Limiter) error{
		"Release":    func(ctx context.Context, l *Limiter) error { return l.Release(ctx, 3) },
		"SetRate":    func(ctx context.Context, l *Limiter) error { return l.SetRate(ctx, hour) },
		"UpdateRate": func(ctx context.Context, l *Limiter) error { _, err := l.UpdateRate(ctx, hour); return err },
		"Delete":     func(ctx context.Context, l *Limiter) error { _, err := l.Delete(ctx); return err },
		"Expire":     func(ctx context.Context, l *Limiter) error { _, err := l.Expire(ctx, 0); return err },
		"ExpireAt": func(ctx context.Context, l *Limiter) error {
			_, err := l.ExpireAt(ctx, time.Now().Add(-second))
			return err
		},
		"Rename": func(ctx context.Context, l *Limiter) error { return l.Rename(ctx, "elsewhere") },
		"Copy": func(ctx context.Context, l *Limiter) error {
			_, err := l.client.Limiter("full").Copy(ctx, "limiter", Replace())
			return err
		},
		"Rename onto": func(ctx context.Context, l *Limiter) error {
			return l.client.Limiter("full").Rename(ctx, "limiter")
		},
	} {
		for kind, patience := range map[string]time.Duration{"": time.Hour, ", whose caller has gone": 50 * time.Millisecond} {
			t.Run(name+kind, func(t *testing.T) {
				inBubble(t, func(b *bubble) {
					l := b.limiter(hour, WithDenialCache())
					require.NoError(b, l.client.Limiter("full").SetRate(b.Context(), hour))
					b.take(l, 10)
					b.full(l, 1)
					synctest.Wait()
					_, denied := b.remembered(l, 1)
					require.True(b, denied)

					b.latency.Store(int64(100 * time.Millisecond))
					ctx, cancel := context.WithTimeout(b.Context(), patience)
					defer cancel()
					err := change(ctx, l)
					if patience < time.Hour {
						require.ErrorIs(b, err, context.DeadlineExceeded)
						pass(second)
					} else {
						require.NoError(b, err)
					}
					_, denied = b.remembered(l, 1)
					assert.False(b, denied)
				})
			})
		}
	}
	t.Run("TrySetRate of a limiter that is gone", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			l := b.limiter(hour, WithDenialCache())
			b.take(l, 10)
			b.full(l, 1)
			synctest.Wait()
			b.redis.FlushAll() // by somebody else, of whom nothing is told here
			_, err := l.TrySetRate(b.Context(), hour)
			require.NoError(b, err)
			b.take(l, 10)
		})
	})
}

// Issue 9, point 5: a denial is remembered only if the limiter still was what the denial says once Redis had begun to tell of
// changes.
func TestWhatHasChangedSinceIsNotRemembered(t *testing.T) {
	for name, change := range map[string]func(b *bubble){
		"the interval": func(b *bubble) { b.redis.HSet("limiter", "interval", "1000") },
		"the rate":     func(b *bubble) { b.redis.HSet("limiter", "rate", "100") },
		"the type":     func(b *bubble) { b.redis.HSet("limiter", "type", "1") },
		"the value":    func(b *bubble) { b.redis.Set("{limiter}:value", "5") },
		"a release": func(b *bubble) {
			require.NoError(b, New(b.quickConn()).Limiter("limiter").Release(context.Background(), 4))
		},
		"a release and another grant": func(b *bubble) {
			other := New(b.quickConn()).Limiter("limiter")
			require.NoError(b, other.Release(context.Background(), 10))
			pass(second)
			_, err := other.TryAcquire(context.Background(), 10)
			require.NoError(b, err)
		},
		"the limiter": func(b *bubble) { b.redis.FlushAll() },
	} {
		for at, look := range map[string]int64{"before the first look": 1, "between the looks": 2} {
			t.Run(name+", "+at, func(t *testing.T) {
				inBubble(t, func(b *bubble) {
					conn := &looked{Client: b.conn}
					conn.call = func(n int64) {
						if n == look {
							change(b)
						}
					}
					l := New(conn, WithDenialCache()).Limiter("limiter")
					require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 10, Interval: time.Hour}))
					b.take(l, 10)
					b.full(l, 1)
					pass(2 * second)
					_, denied := b.remembered(l, 1)
					assert.False(b, denied)
				})
			})
		}
	}
}

// Issue 9, point 5: nor is what this client changed while it looked.
func TestWhatThisClientChangesWhileItLooksIsNotRemembered(t *testing.T) {
	for look := int64(1); look <= 7; look++ {
		inBubble(t, func(b *bubble) {
			conn := &looked{Client: b.conn}
			var l *Limiter
			conn.call = func(n int64) {
				if n == look {
					// It takes place after all that this look reads, and is told of before the denial is kept.
					go l.changed(b.Context())
					pass(time.Millisecond)
				}
			}
			l = New(conn, WithDenialCache()).Limiter("limiter")
			require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 10, Interval: time.Hour}))
			b.take(l, 10)
			b.full(l, 1)
			pass(second)
			_, denied := b.remembered(l, 1)
			assert.False(b, denied, "look %d", look)
		})
	}
}

// Issue 9, point 5: each number of permits has its own RetryAfter, and is asked for where that is not known.
func TestRetryAfterFromMemoryIsExact(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: 10 * second}, WithDenialCache())
		for range 5 {
			b.take(l, 2)
			pass(second)
		}
		b.full(l, 1)
		synctest.Wait()
		asked := b.scripts.Load()
		pass(second) // 6 s
		for permits := int64(1); permits <= 10; permits++ {
			d, err := l.Take(b.Context(), permits)
			require.NoError(b, err)
			want := Decision{Limit: 10, RetryAfter: time.Duration(10-6+(permits-1)/2) * second, ResetAfter: 8 * second}
			assert.Equal(b, want, d, "%d permits", permits)
		}
		assert.Equal(b, asked, b.scripts.Load(), "calls of Redis")
	})
	t.Run("as far as a page tells", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			l := b.limiter(Rate{Permits: 300, Interval: time.Hour}, WithDenialCache())
			for range 300 {
				b.take(l, 1)
				pass(second)
			}
			b.full(l, 1)
			synctest.Wait()
			asked := b.scripts.Load()
			d, err := l.Take(b.Context(), 256)
			require.NoError(b, err)
			assert.Equal(b, time.Hour-300*second+255*second, d.RetryAfter)
			assert.Equal(b, asked, b.scripts.Load(), "calls of Redis")
			_, err = l.Take(b.Context(), 257)
			require.NoError(b, err)
			assert.Equal(b, asked+1, b.scripts.Load(), "calls of Redis")
		})
	})
}

// after is a client of Redis that calls back once, when a command has its answer and its caller does not know it yet.
type after struct {
	rueidis.Client
	call func()
}

func (c *after) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	result := c.Client.Do(ctx, command)
	if call := c.call; call != nil {
		c.call = nil
		call()
	}
	return result
}

// TestWhatThisClientChangesBeforeADenialIsReadIsNotRemembered, also where Redis tells of no changes.
func TestWhatThisClientChangesBeforeADenialIsReadIsNotRemembered(t *testing.T) {
	inBubble(t, func(b *bubble) {
		conn := &after{Client: b.conn}
		l := New(conn, WithDenialCache()).Limiter("limiter")
		require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 10, Interval: time.Hour}))
		b.take(l, 10)
		b.full(l, 1)
		synctest.Wait() // there is no cache, which is known by now
		require.NoError(b, l.Release(b.Context(), 10))
		b.take(l, 10)
		conn.call = func() { assert.NoError(b, l.Release(b.Context(), 10)) }
		b.full(l, 1)
		b.take(l, 10)
	})
}

// TestThatThereIsNoCacheIsFoundOutOnce.
func TestThatThereIsNoCacheIsFoundOutOnce(t *testing.T) {
	inBubble(t, func(b *bubble) {
		conn := &looked{Client: b.conn, call: func(int64) {}}
		l := New(conn, WithDenialCache()).Limiter("limiter")
		require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 10, Interval: time.Hour}))
		b.take(l, 10)
		b.full(l, 2)
		synctest.Wait()
		_, denied := b.remembered(l, 2)
		assert.True(b, denied)
		before := conn.looks.Load()
		b.full(l, 1)
		synctest.Wait()
		assert.Equal(b, before, conn.looks.Load(), "looks into a cache that there is not")
	})
}
