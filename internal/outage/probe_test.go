package outage

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Requests that fail together start one prober.
func TestGuard_ManyRequestsFail_OneProbeStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(redis)
		r.hangs.Store(true)
		g := withMode(limit.Open, deadline, nil)
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() { assert.Equal(t, limit.FailedOpen, g.Ask(t.Context(), Request{Limiter: r, Permits: 1}).Result) })
		}
		callers.Wait()
		time.Sleep(deadline / 2)
		assert.EqualValues(t, 1, r.looks.Load())
		r.hangs.Store(false)
		time.Sleep(maxProbePause)
	})
}

// Only one probe runs at a time, even if the limiter ignores its context.
func TestGuard_ProbeOutlivesItsContext_NoOtherProbeStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := withMode(limit.Closed, deadline, nil)
		var asked, now, most atomic.Int64
		slow := takes(func(context.Context) (rratelimiter.Decision, error) {
			asked.Add(1)
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(9 * deadline)
			return rratelimiter.Decision{}, errRefused
		})
		q := Request{Limiter: slow, Permits: 1}
		g.Ask(t.Context(), q)
		for range 80 {
			time.Sleep(deadline)
			assert.Equal(t, limit.FailedClosed, g.Ask(t.Context(), q).Result)
		}
		assert.InDelta(t, 10, asked.Load(), 1, "the request, and probes one after another")
		assert.EqualValues(t, 1, most.Load())
		time.Sleep(probeIdle + maxProbePause)
	})
}

// A probe that does not return is replaced by single requests, one in ten deadlines.
func TestGuard_ProbeIsStuck_RequestAsksInItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports, release := new(recorder), make(chan bool)
		g := withMode(limit.Closed, deadline, reports.changed)
		var asked atomic.Int64
		q := Request{Permits: 1, Limiter: takes(func(context.Context) (rratelimiter.Decision, error) {
			switch asked.Add(1) {
			case 1, 3:
				return rratelimiter.Decision{}, errRefused
			case 2:
				<-release
			}
			return rratelimiter.Decision{Allowed: true}, nil
		})}
		g.Ask(t.Context(), q)
		time.Sleep(deadline)
		assert.Equal(t, limit.FailedClosed, g.Ask(t.Context(), q).Result)
		time.Sleep(11 * deadline)
		for range 3 {
			assert.Equal(t, limit.FailedClosed, g.Ask(t.Context(), q).Result)
			assert.EqualValues(t, 3, asked.Load())
		}
		time.Sleep(11 * deadline)
		assert.Equal(t, limit.Acquired, g.Ask(t.Context(), q).Result)
		assert.Equal(t, []string{"false connection refused", "true <nil>"}, reports.changes)
		close(release)
	})
}

// The prober ends a minute after the latest request. The next request asks Redis itself. A refused
// connection fails at once, and probes still keep their pauses.
func TestGuard_RareRequests_AskThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, reports := new(redis), new(recorder)
		r.down.Store(true)
		g := withMode(limit.Closed, deadline, reports.changed)
		q := Request{Limiter: r, Permits: 1}
		g.Ask(t.Context(), q)
		time.Sleep(time.Second)
		assert.EqualValues(t, 4, r.looks.Load(), "at 0, 100, 300 and 700 ms")
		time.Sleep(probeIdle)
		looks := r.looks.Load()
		assert.InDelta(t, probeIdle/maxProbePause+4, looks, 2)
		time.Sleep(time.Hour)
		assert.Equal(t, looks, r.looks.Load())
		assert.Equal(t, limit.FailedClosed, g.Ask(t.Context(), q).Result)
		assert.EqualValues(t, 2, r.asked.Load())
		time.Sleep(deadline)
		assert.Greater(t, r.looks.Load(), looks, "it is looked after again")
		time.Sleep(time.Hour)
		r.down.Store(false)
		assert.Equal(t, limit.Acquired, g.Ask(t.Context(), q).Result)
		assert.Equal(t, []string{"false connection refused", "true <nil>"}, reports.changes)
	})
}

// A minute without requests, and then many at once: one asks Redis, and the mode decides the others at once.
func TestGuard_BurstAfterSilence_OneAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(redis)
		r.hangs.Store(true)
		g := withMode(limit.Closed, deadline, nil)
		q := Request{Limiter: r, Permits: 1}
		g.Ask(t.Context(), q)
		time.Sleep(2 * probeIdle)
		begin, waited := time.Now(), atomic.Int64{}
		var all sync.WaitGroup
		for range 300 {
			all.Go(func() {
				assert.Equal(t, limit.FailedClosed, g.Ask(t.Context(), q).Result)
				if time.Since(begin) > 0 {
					waited.Add(1)
				}
			})
		}
		all.Wait()
		assert.EqualValues(t, 2, r.asked.Load())
		assert.EqualValues(t, 1, waited.Load())
		time.Sleep(2 * probeIdle)
	})
}

// A probe of a limiter without Peek takes a permit, and releases it.
func TestGuard_LimiterWithoutPeek_GetsItsPermitBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(counter)
		l.down.Store(true)
		g := withMode(limit.Closed, deadline, nil)
		g.Ask(t.Context(), Request{Limiter: l, Permits: 5})
		l.down.Store(false)
		time.Sleep(deadline)
		synctest.Wait()
		assert.False(t, g.breakerOf(nil).isDown())
		assert.Zero(t, l.taken.Load())
	})
}

// counter is a limiter with Take and Release alone.
type counter struct {
	inside.Sealed
	down  atomic.Bool
	taken atomic.Int64
}

func (c *counter) Name() string { return "" }

func (c *counter) Take(_ context.Context, permits int64) (rratelimiter.Decision, error) {
	if c.down.Load() {
		return rratelimiter.Decision{}, errRefused
	}
	c.taken.Add(permits)
	return rratelimiter.Decision{Allowed: true}, nil
}

func (c *counter) Release(_ context.Context, permits int64) error {
	c.taken.Add(-permits)
	return nil
}

// A probe that panics has failed.
func TestGuard_ProbePanics_NextProbeAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := withMode(limit.Open, deadline, nil)
		var asked atomic.Int64
		g.Ask(t.Context(), Request{Permits: 1, Limiter: takes(func(context.Context) (rratelimiter.Decision, error) {
			switch asked.Add(1) {
			case 1:
				return rratelimiter.Decision{}, errRefused
			case 2:
				panic("a clock")
			}
			return rratelimiter.Decision{}, nil
		})})
		synctest.Wait()
		assert.True(t, g.breakerOf(nil).isDown())
		time.Sleep(2 * deadline)
		assert.False(t, g.breakerOf(nil).isDown())
	})
}

// panicking is a Redis client whose first commands of some name panic, as a hook does that does not know them.
type panicking struct {
	rueidis.Client
	command string
	left    atomic.Int64
}

func (c *panicking) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	if command.Commands()[0] == c.command && c.left.Add(-1) >= 0 {
		panic("a hook")
	}
	return c.Client.Do(ctx, command)
}

// TestProbe_ClientPanics_IsAFailedProbe: no request makes the call, so none gets the panic.
func TestProbe_ClientPanics_IsAFailedProbe(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		conn := &panicking{Client: f.Conn, command: "SET"}
		conn.left.Store(2)
		l := limit.New(rratelimiter.New(conn), "name", limit.FixedWindow{Permits: 5, Interval: time.Hour})
		for _, want := range []error{redisx.ErrNoReply, redisx.ErrNoReply, nil} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			assert.Equal(t, want, probe(ctx, l))
			cancel()
		}
	})
}
