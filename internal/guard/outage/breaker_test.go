package outage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/hold"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redistest/fake"
	"github.com/rratelimiter/rratelimiter/limit"
)

// A shard of a cluster may fail while others answer. Each grant and each denial is an answer.
func TestGuard_OneOfManyCallsHangs_IsNoOutage(t *testing.T) {
	for want, d := range map[limit.Result]rratelimiter.Decision{
		limit.Acquired: {Allowed: true}, limit.Rejected: {Limit: 1, RetryAfter: time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			ill, reports := newRedis(), new(recorder)
			ill.hangs.Store(true)
			well := fake.Deciding(func(context.Context) (rratelimiter.Decision, error) { return d, nil })
			well.Beside = ill.Limiter
			g := withMode(limit.Open, deadline, reports.changed)
			var late sync.WaitGroup
			for i := range 1000 {
				if i%3 == 1 { // before the last answers
					late.Go(func() {
						assert.Equal(t, limit.FailedOpen, g.Decide(t.Context(), Demand{Limiter: ill, Permits: 1}).Result)
					})
				}
				require.Equal(t, want, g.Decide(t.Context(), Demand{Limiter: well, Permits: 1}).Result)
				time.Sleep(deadline / 2)
			}
			late.Wait()
			assert.Empty(t, reports.changes)
		})
	}
}

// A denial from a Client's memory holds, but does not end an outage. A probe does.
func TestGuard_DenialFromMemory_EndsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, reports := newRedis(), new(recorder)
		try := r.OnTry
		r.OnTry = func(ctx context.Context, ask engine.Ask, result *engine.Result) error {
			if r.denies.Load() {
				result.From = engine.FromMemory
			}
			return try(ctx, ask, result)
		}
		g := withMode(limit.Open, deadline, reports.changed)
		q := Demand{Limiter: r, Permits: 1}
		r.down.Store(true)
		require.Equal(t, limit.FailedOpen, g.Decide(t.Context(), q).Result)
		r.denies.Store(true)
		for range 3 {
			time.Sleep(2 * probeIdle)
			assert.Equal(t, limit.Rejected, g.Decide(t.Context(), q).Result, "it holds")
			assert.Equal(t, limit.FailedOpen, g.Decide(t.Context(), q).Result, "Redis is still down")
		}
		assert.Len(t, reports.changes, 1)
		r.down.Store(false)
		time.Sleep(maxProbePause)
		synctest.Wait()
		assert.Equal(t, []string{"false connection refused", "true <nil>"}, reports.changes)
		looks := r.looks.Load()
		assert.Equal(t, limit.Rejected, g.Decide(t.Context(), q).Result)
		assert.Equal(t, looks, r.looks.Load(), "no probe while Redis is up")
	})
}

func TestIsMistake_OnlyErrorsOfTheProgram(t *testing.T) {
	for _, err := range []error{
		rratelimiter.ErrNotInitialized, &rratelimiter.StateError{}, rratelimiter.ErrInvalidRate,
		rratelimiter.ErrInvalidPermits, rratelimiter.ErrInvalidName, rratelimiter.ErrInvalidOption,
		rratelimiter.ErrCrossSlot, rratelimiter.ErrNoClient, limit.ErrNotChargeable, errors.ErrUnsupported,
	} {
		assert.True(t, IsMistake(fmt.Errorf("wrapped: %w", err)), "%v", err)
	}
	assert.False(t, IsMistake(errRefused))
	assert.False(t, IsMistake(nil))
}

// An answer and a failure come together, in either order.
func TestBreaker_AnswerDuringAFailure_IsNoOutage(t *testing.T) {
	var granted Answer
	granted.Decision.Allowed = true
	var down int
	for range 1000 {
		b := New(time.Hour, nil).breakerOf(nil)
		var both sync.WaitGroup
		b.mu.Lock() // as another call of the breaker holds it
		both.Go(func() { b.recordError(t.Context(), newRedis(), errRefused) })
		for range 10 {
			runtime.Gosched() // it mostly waits by then
		}
		b.finish(t.Context(), nil, granted)
		b.mu.Unlock()
		both.Wait()
		if b.isDown() {
			down++
		}
	}
	assert.Zero(t, down, "outages of 1000")
}

// recorder records the calls of a callback, each with the cause of its error, and with its node.
type recorder struct {
	mu      sync.Mutex
	changes []string
	byNode  []string
}

func (r *recorder) changed(node string, up bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for err != nil && errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	r.changes = append(r.changes, fmt.Sprint(up, " ", err))
	r.byNode = append(r.byNode, fmt.Sprint(node, " ", up))
}

func (r *recorder) nodes() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.byNode, ", ")
}

// A callback that blocks holds up its caller and no other request. The changes that come meanwhile
// are reported after it, in order, even if it panics. A panic reaches the request that called the
// callback; that of the prober is dropped.
func TestOnRedisChange_CallbackBlocks_ChangesComeInOrder(t *testing.T) {
	for _, panics := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r, reports, release := newRedis(), new(recorder), make(chan bool)
			first := true
			g := withMode(limit.Open, deadline, func(node string, up bool, err error) {
				reports.changed(node, up, err)
				if first {
					first = false
					<-release
					if panics {
						panic("a callback")
					}
				}
			})
			q := Demand{Limiter: r, Permits: 1}
			r.down.Store(true)
			go func() {
				defer func() { assert.Equal(t, panics, recover() != nil) }()
				g.Decide(t.Context(), q)
			}()
			synctest.Wait()
			r.down.Store(false)
			time.Sleep(deadline)
			synctest.Wait()
			assert.Equal(t, limit.Acquired, g.Decide(t.Context(), q).Result)
			time.Sleep(deadline)
			r.down.Store(true)
			assert.Equal(t, limit.FailedOpen, g.Decide(t.Context(), q).Result)
			assert.Len(t, reports.changes, 1)
			close(release)
			synctest.Wait()
			assert.Equal(t, []string{"false connection refused", "true <nil>", "false connection refused"}, reports.changes)
		})
	}
}

func TestOnRedisChange_CallbackPanics_StateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, calls := newRedis(), 0
		r.down.Store(true)
		g := withMode(limit.Open, deadline, func(string, bool, error) { calls++; panic("a callback") })
		q := Demand{Limiter: r, Permits: 1}
		assert.PanicsWithValue(t, "a callback", func() { g.Decide(t.Context(), q) })
		assert.Equal(t, limit.FailedOpen, g.Decide(t.Context(), q).Result)
		r.down.Store(false)
		time.Sleep(deadline)
		synctest.Wait()
		assert.Equal(t, limit.Acquired, g.Decide(t.Context(), q).Result)
		assert.Equal(t, 2, calls)
	})
}

// TestOnRedisChange_PanicsAtGrant_PlaceReturns: the caller whose grant ended an outage does not get it.
func TestOnRedisChange_PanicsAtGrant_PlaceReturns(t *testing.T) {
	g, returned := New(deadline, func(_ string, up bool, _ error) {
		if up {
			panic("a callback")
		}
	}), 0
	b := g.breakerOf(newRedis())
	b.state.Store(nodeDown)
	granted := Answered(limit.Acquired, nil)
	granted.Decision.Allowed = true
	granted.Receipt.Hold = hold.Local(func() { returned++ })
	assert.PanicsWithValue(t, "a callback", func() { b.finish(t.Context(), newRedis(), granted) })
	assert.Equal(t, 1, returned)
	b.finish(t.Context(), newRedis(), granted)
	assert.Equal(t, 1, returned)
}

// nameless is a limiter of a user's type, whose method Name may take a lock of the program.
type nameless struct {
	*fake.Limiter
	name func() string
}

func (l nameless) Name() string { return l.name() }

// TestBreaker_Observe_CallsNoMethodOfALimiterUnderItsLock: others that hold the program's lock may wait for it.
func TestBreaker_Observe_CallsNoMethodOfALimiterUnderItsLock(t *testing.T) {
	b, named := New(deadline, nil).breakerOf(nil), 0
	b.state.Store(nodeUnsure)
	b.observe(target{t.Context(), nameless{new(fake.Limiter), func() string {
		if assert.True(t, b.mu.TryLock()) {
			b.mu.Unlock()
		}
		named++
		return "name"
	}}}, errRefused)
	assert.True(t, b.isDown())
	assert.NotZero(t, named)
}

// moody is a limiter whose Redis answers, denies, hangs or refuses connections, in turns. It counts the probes that
// begin during another one.
type moody struct {
	*redis
	probe    atomic.Pointer[context.Context]
	overlaps atomic.Int64
}

func newMoody() *moody {
	m := &moody{redis: newRedis()}
	m.OnWait = func(ctx context.Context) (bool, error) {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(rand.N(4 * deadline)):
			err := m.answer(ctx)
			return err == nil, err
		}
	}
	m.OnProbe = func(ctx context.Context) error {
		if before := m.probe.Swap(&ctx); before != nil && (*before).Err() == nil {
			m.overlaps.Add(1)
		}
		defer m.probe.CompareAndSwap(&ctx, nil)
		return m.answer(ctx)
	}
	return m
}

// TestBreaker_RandomOutages_EndAndAreReportedInTurn: of many requests, of which some wait and some leave. One probe
// runs at a time, and nothing is left of an outage but its reports.
func TestBreaker_RandomOutages_EndAndAreReportedInTurn(t *testing.T) {
	outages := 0
	for range redistest.Deep(20, 1000) {
		synctest.Test(t, func(t *testing.T) {
			m, reports := newMoody(), new(recorder)
			g := withMode(limit.Open, deadline, reports.changed)
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					for range 30 {
						ctx, cancel := context.WithTimeout(t.Context(), rand.N(6*deadline)+1)
						wait := []time.Duration{0, 0, 2 * deadline, inside.Forever}[rand.IntN(4)]
						g.Decide(ctx, Demand{Limiter: m, Permits: 1, Wait: wait, MaxWaiting: 30})
						cancel()
						time.Sleep(rand.N(2 * deadline))
					}
				})
			}
			for range 20 {
				time.Sleep(rand.N(10 * deadline))
				m.down.Store(rand.IntN(4) == 0)
				m.hangs.Store(rand.IntN(4) == 0)
				m.denies.Store(rand.IntN(4) == 0)
			}
			m.down.Store(false)
			m.hangs.Store(false)
			m.denies.Store(false)
			all.Wait()
			time.Sleep(deadline + maxProbePause)
			assert.Equal(t, limit.Acquired, g.Decide(t.Context(), Demand{Limiter: m, Permits: 1}).Result)
			time.Sleep(2 * probeIdle)
			synctest.Wait()
			b := g.breakerOf(m)
			assert.Zero(t, b.prober)
			assert.EqualValues(t, nodeUp, b.state.Load())
			assert.Empty(t, g.waiters.on)
			assert.EqualValues(t, 0, g.waiting.Load())
			assert.Zero(t, m.overlaps.Load(), "probes at a time")
			for i, change := range reports.changes {
				assert.Equal(t, i%2 == 1, change == "true <nil>", "%v", reports.changes)
			}
			assert.Zero(t, len(reports.changes)%2, "%v", reports.changes)
			outages += len(reports.changes) / 2
		})
	}
	assert.NotZero(t, outages)
}
