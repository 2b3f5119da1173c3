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
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Requests that fail together start one prober.
func TestGuard_ManyRequestsFail_OneProbeStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRedis()
		r.hangs.Store(true)
		g := withMode(limit.Open, deadline, nil)
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() {
				assert.Equal(t, limit.FailedOpen, g.Decide(t.Context(), Demand{Limiter: r, Permits: 1}).Result)
			})
		}
		callers.Wait()
		time.Sleep(deadline / 2)
		assert.EqualValues(t, 1, r.looks.Load())
		r.hangs.Store(false)
		time.Sleep(maxProbePause)
	})
}

// A prober that is stuck in the callback of an outage is replaced by single requests, one in ten deadlines.
func TestGuard_ProberIsStuck_RequestAsksInItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, reports, release := newRedis(), new(recorder), make(chan bool)
		g := withMode(limit.Closed, deadline, func(node string, up bool, err error) {
			if reports.changed(node, up, err); !up {
				<-release
			}
		})
		q := Demand{Limiter: r, Permits: 1}
		r.hangs.Store(true)
		ctx, leave := context.WithTimeout(t.Context(), deadline/2)
		defer leave()
		assert.Equal(t, limit.Canceled, g.Decide(ctx, q).Result)
		time.Sleep(2 * deadline)
		for range 3 {
			assert.Equal(t, limit.FailedClosed, g.Decide(t.Context(), q).Result)
			assert.EqualValues(t, 1, r.asked.Load())
		}
		time.Sleep(11 * deadline)
		for range 3 {
			assert.Equal(t, limit.FailedClosed, g.Decide(t.Context(), q).Result)
			assert.EqualValues(t, 2, r.asked.Load())
		}
		r.hangs.Store(false)
		time.Sleep(11 * deadline)
		assert.Equal(t, limit.Acquired, g.Decide(t.Context(), q).Result)
		close(release)
		synctest.Wait()
		assert.Equal(t, []string{"false context deadline exceeded", "true <nil>"}, reports.changes)
	})
}

// The prober ends a minute after the latest request. The next request asks Redis itself. A refused
// connection fails at once, and probes still keep their pauses.
func TestGuard_RareRequests_AskThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, reports := newRedis(), new(recorder)
		r.down.Store(true)
		g := withMode(limit.Closed, deadline, reports.changed)
		q := Demand{Limiter: r, Permits: 1}
		g.Decide(t.Context(), q)
		time.Sleep(time.Second)
		assert.EqualValues(t, 4, r.looks.Load(), "at 0, 100, 300 and 700 ms")
		time.Sleep(probeIdle)
		looks := r.looks.Load()
		assert.InDelta(t, probeIdle/maxProbePause+4, looks, 2)
		time.Sleep(time.Hour)
		assert.Equal(t, looks, r.looks.Load())
		assert.Equal(t, limit.FailedClosed, g.Decide(t.Context(), q).Result)
		assert.EqualValues(t, 2, r.asked.Load())
		time.Sleep(deadline)
		assert.Greater(t, r.looks.Load(), looks, "it is looked after again")
		time.Sleep(time.Hour)
		r.down.Store(false)
		assert.Equal(t, limit.Acquired, g.Decide(t.Context(), q).Result)
		assert.Equal(t, []string{"false connection refused", "true <nil>"}, reports.changes)
	})
}

// A minute without requests, and then many at once: one asks Redis, and the mode decides the others at once.
func TestGuard_BurstAfterSilence_OneAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRedis()
		r.hangs.Store(true)
		g := withMode(limit.Closed, deadline, nil)
		q := Demand{Limiter: r, Permits: 1}
		g.Decide(t.Context(), q)
		time.Sleep(2 * probeIdle)
		begin, waited := time.Now(), atomic.Int64{}
		var all sync.WaitGroup
		for range 300 {
			all.Go(func() {
				assert.Equal(t, limit.FailedClosed, g.Decide(t.Context(), q).Result)
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
