package rratelimiter

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Issue 9, point 4: who stands ahead only to be refused itself is no reason to refuse a newcomer.
func TestWhoAsksForMoreThanALoweredRateHoldsNobodyUp(t *testing.T) {
	inQueue(t, Rate{Permits: 100, Interval: 10 * second}, func(q *line, l *Limiter) {
		q.take(l, 100)
		q.wait(l, "a", 1, 0)
		q.wait(l, "b", 50, 0)
		pass(2 * second) // all are asked for
		require.NoError(t, New(q.conn).Limiter("limiter").SetRate(q.Context(), Rate{Permits: 10, Interval: 10 * second}, KeepState()))
		ok, err := l.TryAcquireWithin(q.Context(), 1, 15*second)
		require.NoError(t, err)
		assert.True(t, ok, "10 permits are free at 10s: 1 is a's, b asks for more than the rate, the rest are free")
	})
}

// Issue 9, point 4: who can no longer be served is told at once, wherever it stands.
func TestWhoCanNoLongerBeServedIsToldAtOnceBehindOthers(t *testing.T) {
	inQueue(t, Rate{Permits: 10, Interval: 10 * second}, func(q *line, l *Limiter) {
		q.take(l, 10)
		for i := range 30 {
			q.wait(l, fmt.Sprint(i), 1, time.Minute)
		}
		pass(2 * second)
		require.NoError(t, l.SetRate(q.Context(), Rate{Permits: 10, Interval: time.Hour}, KeepState()))
		pass(second)
		q.mu.Lock()
		defer q.mu.Unlock()
		assert.Len(t, q.log, 30, "none of them is served before an hour has passed")
	})
}

// TestWhoCanNoLongerBeServedIsToldByTheNextCall, though it is somebody else's and serves that one: who stands between counts.
func TestWhoCanNoLongerBeServedIsToldByTheNextCall(t *testing.T) {
	inQueue(t, Rate{Permits: 10, Interval: 10 * second}, func(q *line, l *Limiter) {
		other := New(q.conn).Limiter("limiter")
		q.take(other, 1)
		pass(second)
		q.take(other, 9)
		q.wait(l, "a", 1, 0)
		q.wait(l, "b", 5, 0)
		q.within(l, "c", 4, 13*second) // at 11s, with b
		pass(2 * second)
		require.NoError(t, other.Release(q.Context(), 10))
		q.take(other, 5)
		pass(2 * second)
		q.take(other, 4)
		pass(6 * second)
		assert.ElementsMatch(t, []string{"a at 10s", "c failed at 10s"}, q.said(), "c is behind b, which can be served at 13s: at 15s")
	})
}

// TestWhomTheCallIsForIsToldByIt that it can no longer be served.
func TestWhomTheCallIsForIsToldByIt(t *testing.T) {
	inQueue(t, Rate{Permits: 10, Interval: 10 * second}, func(q *line, l *Limiter) {
		other := New(q.conn).Limiter("limiter")
		q.take(other, 10)
		q.within(l, "a", 1, 11*second)
		pass(2 * second)
		require.NoError(t, other.Release(q.Context(), 10))
		q.take(other, 10)
		q.wait(l, "b", 1, 0) // the last call is old
		assert.Equal(t, []string{"a failed at 2s"}, q.said(), "at 12s")
	})
}

// Issue 9, point 4: and so is a request above a rate that was lowered.
func TestARequestAboveALoweredRateIsToldAtOnceBehindOthers(t *testing.T) {
	inQueue(t, Rate{Permits: 10, Interval: 10 * second}, func(q *line, l *Limiter) {
		q.take(l, 10)
		for i := range 20 {
			q.wait(l, fmt.Sprint(i), 1, 0)
		}
		q.wait(l, "large", 5, 0)
		pass(2 * second)
		require.NoError(t, l.SetRate(q.Context(), Rate{Permits: 1, Interval: time.Minute}, KeepState()))
		pass(second)
		q.mu.Lock()
		assert.Equal(t, []string{"large failed at 2s"}, q.log)
		q.mu.Unlock()
	})
}

// Issue 9, point 7: who was never asked for has no answer, also where a clock panicked before.
func TestNobodyWasAskedForByACallThatAClockPrevented(t *testing.T) {
	inBubble(t, func(b *bubble) {
		var panics atomic.Int64
		l := b.limiter(Rate{Permits: maxGrant, Interval: time.Hour}, WithClock(func() time.Time {
			if panics.Add(-1) >= 0 {
				panic("no time")
			}
			return time.Now()
		}))
		b.latency.Store(int64(100 * time.Millisecond))
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		acquire := func(permits int64) {
			go func() {
				defer func() { _ = recover() }()
				_ = l.Acquire(ctx, permits)
			}()
			synctest.Wait()
		}
		acquire(1) // in a call; the others come meanwhile
		panics.Store(1)
		b.latency.Store(int64(10 * second)) // and then it hangs
		acquire(maxGrant - 1)
		acquire(maxGrant - 2)
		ok, err := l.TryAcquireWithin(b.Context(), maxGrant-3, second)
		assert.False(b, ok)
		assert.ErrorIs(b, err, context.DeadlineExceeded, "nobody asked Redis for it")
	})
}

// Issue 9, point 8: a clock that panics while a slot moves hurts one caller.
func TestAClockThatPanicsWhileASlotMovesHurtsItsOwnCallAlone(t *testing.T) {
	for name, call := range map[string]func(context.Context, *Limiter) error{
		"TryAcquire": func(ctx context.Context, l *Limiter) error { _, err := l.TryAcquire(ctx, 1); return err },
		"Acquire":    func(ctx context.Context, l *Limiter) error { return l.Acquire(ctx, 1) },
	} {
		crowded := map[string]int64{"TryAcquire": 3, "Acquire": 2}[name] // the call that most of them share
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				var calls atomic.Int64
				var armed atomic.Bool
				l := b.limiter(Rate{Permits: 1000, Interval: time.Hour}, WithClock(func() time.Time {
					if armed.Swap(false) {
						panic("no time")
					}
					return time.Now()
				}))
				b.redis.Server().SetPreHook(func(p *server.Peer, command string, _ ...string) bool {
					if command == "EVALSHA" && calls.Add(1) == crowded {
						armed.Store(true)
						p.WriteError("TRYAGAIN Multiple keys request during rehashing of slot")
						return true
					}
					return false
				})
				b.latency.Store(int64(10 * time.Millisecond))
				var hurt, failed atomic.Int64
				_, _ = crowd(b, 20, func(int) (Decision, error) {
					defer func() {
						if recover() != nil {
							hurt.Add(1)
						}
					}()
					if err := call(b.Context(), l); err != nil {
						failed.Add(1)
					}
					return Decision{}, nil
				})
				assert.LessOrEqual(b, hurt.Load(), int64(1))
				assert.Zero(b, failed.Load(), "the call was refused unread: the others can be served")
			})
		})
	}
}

// Issue 9, point 8: a clock that ends its goroutine, as a failed assertion does.
func TestAClockThatEndsItsGoroutineHurtsItsOwnCallAlone(t *testing.T) {
	for _, wait := range []bool{false, true} {
		t.Run(fmt.Sprint(wait), func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				var ends atomic.Int64
				l := b.limiter(Rate{Permits: 1000, Interval: time.Hour}, WithClock(func() time.Time {
					if ends.Add(-1) >= 0 {
						runtime.Goexit() // as a failed assertion does
					}
					return time.Now()
				}))
				for range 2 {
					ends.Store(1)
					done := make(chan struct{})
					go func() {
						defer close(done)
						defer func() { assert.Contains(b, recover(), "ended its goroutine") }()
						ctx, cancel := context.WithTimeout(context.Background(), second)
						defer cancel()
						if wait {
							_ = l.Acquire(ctx, 1)
						} else {
							_, _ = l.TryAcquire(context.Background(), 1)
						}
					}()
					<-done
				}
				ends.Store(0)
				ctx, cancel := context.WithTimeout(b.Context(), 10*second)
				defer cancel()
				var err error
				if wait {
					err = l.Acquire(ctx, 1)
				} else {
					_, err = l.TryAcquire(ctx, 1)
				}
				assert.NoError(b, err, "the name works afterwards")
				b.latency.Store(0)
				synctest.Wait()
			})
		})
	}
}
