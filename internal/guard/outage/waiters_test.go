package outage

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// counted is a limiter that counts how often its node is looked up.
type counted struct {
	*hangs
	times atomic.Int64
}

func (c *counted) Node() (g *engine.Engine, key string, ok bool) {
	c.times.Add(1)
	return c.hangs.Node()
}

// TestWaiters_Many_CostNoMoreThanOne: the node is checked once for all. They end at once when it is down.
func TestWaiters_Many_CostNoMoreThanOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 100
		l := &counted{hangs: newHangs()}
		var down time.Time
		g := withMode(limit.Open, deadline, func(_ string, up bool, _ error) {
			if !up {
				down = time.Now()
			}
		})
		var all sync.WaitGroup
		ended := make([]time.Time, many)
		for i := range many {
			all.Go(func() {
				a := g.Decide(t.Context(), Demand{Limiter: l, Permits: 1, Wait: inside.Forever, MaxWaiting: many})
				assert.ErrorIs(t, a.Err, ErrDown)
				ended[i] = time.Now()
			})
		}
		synctest.Wait()
		before := l.times.Load()
		time.Sleep(30 * deadline)
		assert.Less(t, l.times.Load()-before, int64(3*many), "lookups of the node")
		l.hung.Store(true)
		time.Sleep(3 * deadline)
		all.Wait()
		synctest.Wait() // the outage is reported
		for _, at := range ended {
			assert.Equal(t, down, at)
		}
		assert.Empty(t, g.waiters.on)
		time.Sleep(2 * probeIdle)
	})
}

// TestWaiters_Many_CheckTakesAsLongAsOfOne: it runs three times in each deadline.
func TestWaiters_Many_CheckTakesAsLongAsOfOne(t *testing.T) {
	check := func(many int) time.Duration {
		g, l := New(time.Hour, nil), newHangs()
		b := g.breakerOf(l)
		b.lastAnswer.Store(b.now())
		for range many {
			_, stop := g.whileUp(t.Context(), l)
			defer stop()
		}
		fastest := time.Hour
		for range 30 {
			begin := time.Now()
			g.checkWaiters()
			fastest = min(fastest, time.Since(begin))
		}
		return fastest
	}
	assert.Less(t, check(20_000), 100*check(1))
}

// TestWaiters_SlotMoves_NewNodeCounts: another master takes the slot while a request waits, and hangs later.
func TestWaiters_SlotMoves_NewNodeCounts(t *testing.T) {
	redistest.RunTwoMasters(t, func(c *redistest.Cluster) {
		g := withMode(limit.Open, deadline, nil)
		l := limit.New(rratelimiter.New(c.Conn), onNodeB, limit.FixedWindow{Permits: 1, Interval: time.Hour})
		toA, toB := "MOVED 0 "+redistest.NodeA, "MOVED 0 "+redistest.NodeB
		for _, node := range []string{toA, toB} { // none is left on either
			c.Redirect(redistest.NodeA, map[bool]string{true: toB}[node == toB])
			c.Redirect(redistest.NodeB, map[bool]string{true: toA}[node == toA])
			require.Equal(c, limit.Acquired, g.Decide(c.Context(), Demand{Limiter: l, Permits: 1}).Result)
			time.Sleep(2 * time.Second) // the slots are known
		}
		var ended atomic.Int64
		begin := time.Now()
		go func() {
			a := g.Decide(c.Context(), Demand{Limiter: l, Permits: 1, Wait: 2 * time.Hour, MaxWaiting: 1})
			assert.ErrorContains(c, a.Err, "Redis at a:1 is down")
			ended.Store(int64(time.Since(begin)))
		}()
		time.Sleep(time.Second)
		c.Redirect(redistest.NodeA, "")
		c.Redirect(redistest.NodeB, toA)
		c.Serve(redistest.NodeA)
		time.Sleep(2 * time.Minute)
		require.Zero(c, ended.Load())
		c.Delay(redistest.NodeA, time.Hour)
		hung := time.Since(begin)
		time.Sleep(4 * deadline)
		synctest.Wait()
		assert.NotZero(c, ended.Load())
		assert.LessOrEqual(c, time.Duration(ended.Load())-hung, 3*deadline+3*time.Millisecond)
	})
}

// TestWaiters_BeginInAnOutage_AreNotEndedAtOnce: Redis has just denied the request, and a probe is about to end the
// outage.
func TestWaiters_BeginInAnOutage_AreNotEndedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, l := New(deadline, nil), newHangs()
		_, stopEarlier := g.whileUp(t.Context(), l) // the timer runs
		time.Sleep(deadline / 6)
		l.hung.Store(true)
		g.breakerOf(l).state.Store(nodeDown)
		up, stop := g.whileUp(t.Context(), l)
		time.Sleep(deadline/3 - 1)
		assert.NoError(t, up.Err())
		time.Sleep(deadline / 3)
		assert.ErrorIs(t, context.Cause(up), ErrDown)
		stop()
		stopEarlier()
		time.Sleep(2 * probeIdle)
	})
}
