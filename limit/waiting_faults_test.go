package limit

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// hanging is a client whose calls hang for a time.
type hanging struct {
	rueidis.Client
	from, to time.Time
}

func (c hanging) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	c.hang()
	defer c.hang()
	return c.Client.Do(ctx, command)
}

func (c hanging) hang() {
	if now := time.Now(); now.After(c.from) && now.Before(c.to) {
		time.Sleep(c.to.Sub(now))
	}
}

// TestAcquire_ClientsFail_NoPermitIsIdle: three Clients hang, for three seconds or to the end, and others come and go
// each 50 ms. A permit is free for the time of a call and of its lateness. The others wait for a round of all callers,
// which takes 0.9 s, and for what two Clients make up for, 2.4 s.
func TestAcquire_ClientsFail_NoPermitIsIdle(t *testing.T) {
	t.Parallel()
	const d, minute = 9 * time.Second, time.Minute
	names := []string{"FixedWindow", "TokenBucket", "SlidingLog"}
	for _, name := range names[:redistest.Deep(2, 3)] {
		redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
			ctx := redistest.Timeout(t, d)
			var all sync.WaitGroup
			var granted, longest atomic.Int64
			clock := func(ahead time.Duration) rratelimiter.Option {
				return rratelimiter.WithClock(func() time.Time { return time.Now().Add(ahead) })
			}
			waits := func(ctx context.Context, conn rueidis.Client, ahead time.Duration, callers int, steady bool) {
				l := daily[name].open(rratelimiter.New(conn, clock(ahead)))
				for range callers {
					all.Go(func() {
						for from := time.Now(); ctx.Err() == nil; from = time.Now() {
							if l.Acquire(ctx, 1) != nil {
								return
							}
							if granted.Add(1); steady {
								longest.Store(max(longest.Load(), int64(time.Since(from))))
							}
						}
					})
				}
			}
			waits(ctx, f.Conn, 0, 5, true)
			waits(ctx, far{f.Conn, 3 * time.Millisecond}, 0, 5, true)
			waits(ctx, f.Conn, minute, 5, true)
			waits(ctx, f.Conn, -minute, 5, true)
			from := time.Now().Add(2 * time.Second)
			for _, to := range []time.Time{from.Add(3 * time.Second), from.Add(3 * time.Second), from.Add(d)} {
				waits(ctx, hanging{f.Conn, from, to}, 0, 5, false)
			}
			all.Go(func() {
				for ctx.Err() == nil {
					visit, leave := context.WithTimeout(ctx, 45*time.Millisecond)
					waits(visit, f.Conn, 0, 2, false)
					time.Sleep(50 * time.Millisecond)
					leave()
				}
			})
			var idle time.Duration
			own := New(rratelimiter.New(f.Conn, clock(minute)), "x", daily[name].policies...)
			for busy := time.Now(); ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
				if p, err := own.Peek(ctx); err != nil || p[0].Remaining == 0 {
					busy = time.Now()
				}
				idle = max(idle, time.Since(busy))
			}
			all.Wait()
			assert.GreaterOrEqual(t, float64(granted.Load()), 0.97*40*d.Seconds(), name)
			assert.LessOrEqual(t, time.Duration(longest.Load()), 4*time.Second, name)
			assert.LessOrEqual(t, idle, 75*time.Millisecond, name)
		})
	}
}

// TestAcquire_ClientsComeAndGoBesideMany_PaceStays: Clients appear each 50 ms and leave unserved. None of those that stay
// waits for a later window, since those are before it.
func TestAcquire_ClientsComeAndGoBesideMany_PaceStays(t *testing.T) {
	t.Parallel()
	names := []string{"SlidingLog", "FixedWindow", "SlidingWindow"}
	for _, name := range names[:redistest.Deep(1, 3)] {
		for _, clients := range []int{50, 150}[:redistest.Deep(1, 2)] {
			redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
				test, d := daily[name], forSeconds(10, 40)
				ctx, end := context.WithTimeout(t.Context(), d)
				defer end()
				var all sync.WaitGroup
				var visitors atomic.Int64
				all.Go(func() {
					for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
						all.Go(func() {
							one, leave := context.WithTimeout(ctx, 45*time.Millisecond)
							defer leave()
							if test.open(rratelimiter.New(f.Conn)).Acquire(one, 2) == nil {
								visitors.Add(2)
							}
						})
					}
				})
				got := shares(t, f, d, test.open, slices.Repeat([]site{{callers: 2}}, clients)...)
				all.Wait()
				sum := float64(got.sum() + visitors.Load())
				assert.GreaterOrEqual(t, sum, 0.97*test.rate*d.Seconds(), "%s, %d Clients", name, clients)
				assert.LessOrEqual(t, float64(got.calls), 5*sum, "%s, %d Clients", name, clients)
			})
		}
	}
}

// TestAcquire_ClientsDieBesideALongWindow_PaceStays: four of five Clients end while they wait. The window has permits
// left, so its end is not the time at which their calls are due. What was held for them is held for the time of a call.
func TestAcquire_ClientsDieBesideALongWindow_PaceStays(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		test := limited(40, FixedWindow{100_000, 24 * time.Hour, false}, TokenBucket{5, 40, time.Second})
		dies, d := time.Now().Add(time.Second), 4*time.Second
		ctx, end := context.WithDeadline(t.Context(), time.Now().Add(d))
		defer end()
		var all sync.WaitGroup
		var granted atomic.Int64
		for i := range 20 {
			conn := f.Conn
			if i%5 > 0 {
				conn = hanging{f.Conn, dies, dies.Add(d)}
			}
			l := test.open(rratelimiter.New(conn))
			for range 2 {
				all.Go(func() {
					for l.Acquire(ctx, 1) == nil {
						granted.Add(1)
					}
				})
			}
		}
		all.Wait()
		assert.GreaterOrEqual(t, float64(granted.Load()), 0.95*test.rate*d.Seconds())
		assert.LessOrEqual(t, float64(f.Scripts.Load()), 4.5*float64(granted.Load()), "the Clients ask in turn")
	})
}
