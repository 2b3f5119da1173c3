package fallback

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

const deadline = 100 * time.Millisecond

var minute = limit.FixedWindow{Permits: 10, Interval: time.Minute}

// run runs a test with a Redis in memory.
func run(t *testing.T, test func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client)) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) { test(t, f, rratelimiter.New(f.Conn)) })
}

// slow makes Redis answer later than the deadline.
func slow(f *redistest.Fixture) (end func()) {
	f.Latency.Store(int64(time.Second))
	return func() { f.Latency.Store(0) }
}

// runEach runs a test with each kind of limiter.
func runEach(t *testing.T, test func(t *testing.T, f *redistest.Fixture, limiter limit.Joinable)) {
	perMinute := rratelimiter.InitialRate(rratelimiter.Rate{Permits: 10, Interval: time.Minute})
	for kind, open := range map[string]func(client *rratelimiter.Client) limit.Joinable{
		"root":  func(client *rratelimiter.Client) limit.Joinable { return client.Limiter("x", perMinute) },
		"limit": func(client *rratelimiter.Client) limit.Joinable { return limit.New(client, "x", minute) },
	} {
		t.Run(kind, func(t *testing.T) {
			run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) { test(t, f, open(client)) })
		})
	}
}

// answer is the result of a call as text.
func answer(allowed bool, from rratelimiter.Source, err error) string {
	switch {
	case errors.Is(err, ErrClosed):
		return "refused by " + string(from)
	case err != nil:
		return err.Error()
	case !allowed:
		return "denied by " + string(from)
	}
	return "granted by " + string(from)
}

// TestLimiter_RedisAway_ModeDecides: the first call has the deadline, the others return at once, and
// Redis decides again when it is back.
func TestLimiter_RedisAway_ModeDecides(t *testing.T) {
	for mode, want := range map[limit.FailureMode][]string{
		limit.Open:       {"granted by mode", "granted by mode", "granted by mode"},
		limit.Closed:     {"refused by mode", "refused by mode", "refused by mode"},
		limit.Local(0.2): {"granted by share", "denied by share", "denied by share"},
	} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			runEach(t, func(t *testing.T, f *redistest.Fixture, limiter limit.Joinable) {
				var mu sync.Mutex
				var changes []bool
				l := New(limiter, Deadline(deadline), OnFailure(mode),
					OnRedisChange(func(node string, up bool, err error) {
						mu.Lock()
						defer mu.Unlock()
						assert.Equal(t, up, err == nil)
						changes = append(changes, up)
					}))
				calls := []func() string{
					func() string { return answer(l.TryAcquire(t.Context(), 1)) },
					func() string { return answer(l.TryAcquireWithin(t.Context(), 1, time.Second)) },
					func() string {
						d, from, err := l.Take(t.Context(), 1)
						return answer(d.Allowed, from, err)
					},
				}
				for _, call := range calls {
					require.Equal(t, "granted by redis", call())
				}
				time.Sleep(time.Second)
				end := slow(f)
				for i, call := range calls {
					begin := time.Now()
					assert.Equal(t, want[i], call())
					took := time.Since(begin)
					assert.True(t, took == 0 || i == 0 && took <= deadline, "call %d took %v", i, took)
				}
				if mode == limit.Closed {
					_, err := l.Acquire(t.Context(), 1)
					require.ErrorIs(t, err, ErrClosed)
					assert.ErrorContains(t, err, `"x`)
				}
				end()
				time.Sleep(5 * time.Second)
				assert.Equal(t, "granted by redis", calls[0]())
				mu.Lock()
				defer mu.Unlock()
				assert.Equal(t, []bool{false, true}, changes)
			})
		})
	}
}

func TestAcquire_RedisAnswers_IsGrantedAfterTheWait(t *testing.T) {
	run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		l := New(limit.New(client, "x", minute))
		require.Equal(t, "granted by redis", answer(l.TryAcquire(t.Context(), 10)))
		from, err := l.Acquire(t.Context(), 1)
		assert.Equal(t, "granted by redis", answer(true, from, err))
		assert.Equal(t, "granted by redis", answer(l.TryAcquireWithin(t.Context(), 10, 2*time.Minute)))
		assert.Equal(t, "denied by redis", answer(l.TryAcquireWithin(t.Context(), 1, -1)))
	})
}

// TestAcquire_ContextEnds_ReturnsAtOnce: while Redis is there, while it hangs, and while the share counts.
func TestAcquire_ContextEnds_ReturnsAtOnce(t *testing.T) {
	for after, hangs := range map[time.Duration]bool{time.Second: false, deadline / 2: true, time.Minute: true} {
		run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
			l := New(limit.New(client, "x", limit.FixedWindow{Permits: 10, Interval: time.Hour}), Deadline(deadline),
				OnFailure(limit.Local(0.1)))
			require.Equal(t, "granted by redis", answer(l.TryAcquire(t.Context(), 10)))
			ctx, cancel := context.WithCancel(t.Context())
			returned := make(chan error, 2)
			for range 2 { // the share serves one of them
				go func() {
					_, err := l.Acquire(ctx, 1)
					returned <- err
				}()
			}
			time.Sleep(time.Second)
			if hangs {
				slow(f)
			}
			time.Sleep(after)
			cancel()
			synctest.Wait()
			require.Len(t, returned, 2)
			errs := []error{<-returned, <-returned}
			assert.Contains(t, errs, context.Canceled, "after %v", after)
			if after < time.Minute {
				assert.Equal(t, errs[0], errs[1])
			}
			_, err := l.Acquire(ctx, 1)
			require.ErrorIs(t, err, context.Canceled)
		})
	}
}

// TestLimiter_InvalidCall_HasItsError: the mode decides nothing then.
func TestLimiter_InvalidCall_HasItsError(t *testing.T) {
	run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		open := OnFailure(limit.Open)
		valid := New(limit.New(client, "x", minute), open, Deadline(deadline))
		assert.PanicsWithValue(t, "fallback: New: rratelimiter: invalid rate: 0 policies, want 1 to 10",
			func() { New(limit.New(client, "x"), open) })
		invalid := valid.With(limit.New(client, "x"))
		check := func(l *Limiter, permits int64, want error) {
			_, _, tried := l.TryAcquire(t.Context(), permits)
			_, _, taken := l.Take(t.Context(), permits)
			_, acquired := l.Acquire(t.Context(), permits)
			for _, err := range []error{tried, taken, acquired} {
				require.ErrorIs(t, err, want)
				require.NotErrorIs(t, err, ErrClosed)
			}
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		checkAll := func() {
			_, _, err := valid.TryAcquire(gone, 1)
			require.ErrorIs(t, err, context.Canceled)
			check(valid, 0, rratelimiter.ErrInvalidPermits)
			check(valid.With(limit.New(client, "", minute)), 1, rratelimiter.ErrInvalidName)
			check(invalid, 11, rratelimiter.ErrInvalidRate)
			check(New(nil, open), 11, rratelimiter.ErrNoClient)
			check(valid, 11, rratelimiter.ErrPermitsExceedRate)
		}
		checkAll()
		end := slow(f)
		assert.Equal(t, "granted by mode", answer(valid.TryAcquire(t.Context(), 1)))
		checkAll()
		end()
		time.Sleep(2 * time.Second)

		none := client.Limiter("no rate")
		check(New(none, open), 1, rratelimiter.ErrNotInitialized)
		check(New(none), 1, rratelimiter.ErrNotInitialized)
		assert.PanicsWithValue(t, "fallback: New: the policies of limiter \"no rate\" are unknown: "+
			"pass InitialRate to it, for Local",
			func() { New(none, OnFailure(limit.Local(0.5))) })
		joined := limit.Join(none, limit.New(client, "x", minute))
		assert.Panics(t, func() { New(joined, OnFailure(limit.Local(0.5))) })
	})
}

// TestWith_Keys_ShareTheBreaker: and each has a share of its own.
func TestWith_Keys_ShareTheBreaker(t *testing.T) {
	run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		users := limit.NewKeyed(client, "user", minute, limit.Pause{Most: time.Hour})
		base := New(nil, Deadline(deadline), OnFailure(limit.Local(0.1)))
		slow(f)
		begin := time.Now()
		for i, want := range []string{"granted by share", "denied by share"} {
			for _, key := range []string{"alice", "bob"} {
				assert.Equal(t, want, answer(base.With(users.Limiter(key)).TryAcquire(t.Context(), 1)), "%s, %d", key, i)
			}
		}
		assert.Equal(t, deadline, time.Since(begin), "one call has the deadline")
	})
}

// TestLimiter_StallShorterThanDeadline_IsNoFailure: Redis has denied the permits, and then stalls. The
// caller's timeout ends meanwhile.
func TestLimiter_StallShorterThanDeadline_IsNoFailure(t *testing.T) {
	run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		inner := limit.New(client, "api", limit.SlidingLog{Permits: 1, Interval: 40 * time.Millisecond})
		l := New(inner, OnFailure(limit.Open))
		require.NoError(t, redistest.Err(l.Acquire(t.Context(), 1))) // Redis knows the scripts of both calls then
		time.Sleep(time.Second)
		_, _, err := l.TryAcquire(t.Context(), 1)
		require.NoError(t, err)
		f.Latency.Store(int64(4 * time.Millisecond))
		time.AfterFunc(3*time.Millisecond, func() { f.Latency.Store(int64(100 * time.Millisecond)) })
		allowed, from, err := l.TryAcquireWithin(t.Context(), 1, 50*time.Millisecond)
		assert.NoError(t, err)
		assert.False(t, allowed)
		assert.Equal(t, rratelimiter.FromRedis, from)
		f.Latency.Store(0)
		time.Sleep(time.Minute)
	})
}

// TestTryAcquire_MoreThanTheInitialRate_IsNotDenied: the rate in Redis may be another one.
func TestTryAcquire_MoreThanTheInitialRate_IsNotDenied(t *testing.T) {
	run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		rate := rratelimiter.InitialRate(rratelimiter.Rate{Permits: 10, Interval: time.Minute})
		f.Redis.SetError("LOADING")
		l := New(client.Limiter("java", rate), OnFailure(limit.Open))
		assert.Equal(t, "granted by mode", answer(l.TryAcquire(t.Context(), 11)))
		f.Redis.SetError("")
		time.Sleep(5 * time.Minute)
	})
}

// TestTakeWithin_RedisAnswers_HasItsNumbers: those of the end of the wait.
func TestTakeWithin_RedisAnswers_HasItsNumbers(t *testing.T) {
	runEach(t, func(t *testing.T, f *redistest.Fixture, limiter limit.Joinable) {
		l := New(limiter)
		require.Equal(t, "granted by redis", answer(l.TryAcquire(t.Context(), 10)))
		time.Sleep(time.Second)
		denied := rratelimiter.Decision{Limit: 10, RetryAfter: 59 * time.Second, ResetAfter: 59 * time.Second}
		granted := rratelimiter.Decision{Allowed: true, Limit: 10, Remaining: 7, ResetAfter: time.Minute}
		for _, test := range []struct {
			timeout time.Duration
			want    rratelimiter.Decision
		}{{-1, denied}, {time.Second, denied}, {time.Hour, granted}} {
			d, from, err := l.TakeWithin(t.Context(), 3, test.timeout)
			require.NoError(t, err)
			assert.Equal(t, rratelimiter.FromRedis, from)
			assert.Equal(t, test.want, d, test.timeout)
		}
	})
}
