package engine

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestQueue_CallersArriveAndLeave_SumsMatch: served, refused, too late, cancelled, or with an error.
func TestQueue_CallersArriveAndLeave_SumsMatch(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.limiter(20, 2*time.Second)
		random := rand.New(rand.NewPCG(3, 4))
		check := func() (waiting int) {
			e := l.Engine.registry.lockExisting("limiter")
			if e == nil {
				return 0
			}
			defer l.Engine.registry.unlockEntry(e)
			if e.queue == nil {
				return 0
			}
			var wanted, ahead int64
			checked := true
			var last uint64
			for w := e.queue.waiters.first; w != nil; w = w.next {
				checked = checked && w != e.queue.fresh.unchecked
				if checked {
					ahead += w.Permits
				}
				wanted += w.Permits
				assert.Greater(t, w.arrival, last)
				assert.Less(t, w.state, answered)
				last = w.arrival
				waiting++
			}
			assert.Equal(t, wanted, e.queue.wanted, "wanted by all")
			assert.Equal(t, checked, e.queue.fresh.unchecked == nil, "an unchecked waiter waits")
			if !checked {
				assert.Equal(t, ahead, e.queue.fresh.ahead, "wanted by those before the first unchecked")
			}
			return waiting
		}
		f.Latency.Store(int64(30 * time.Millisecond))
		var callers sync.WaitGroup
		most := 0
		for step := range 1500 {
			permits := 1 + random.Int64N(6)
			if random.IntN(40) == 0 {
				permits = 21
			}
			ctx, cancel := context.WithCancel(t.Context())
			if random.IntN(3) == 0 {
				time.AfterFunc(time.Duration(random.IntN(3000))*time.Millisecond, cancel)
			}
			timeout := time.Duration(random.IntN(4000)) * time.Millisecond
			callers.Go(func() {
				defer cancel()
				var deadline time.Time
				if timeout <= 3*time.Second {
					deadline = time.Now().Add(timeout)
				}
				_, _ = l.Wait(ctx, permits, deadline)
			})
			switch random.IntN(60) {
			case 0:
				callers.Go(func() { _ = l.Release(t.Context(), 10) })
			case 1:
				f.fail("OOM")
			case 2, 3, 4, 5:
				f.fail("")
			}
			if random.IntN(4) > 0 {
				time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
			}
			synctest.Wait()
			most = max(most, check())
			require.False(t, t.Failed(), "step %d", step)
		}
		f.fail("")
		assert.Greater(t, most, 20)
		callers.Wait()
		time.Sleep(time.Second)
		assert.True(t, l.Engine.idle())
	})
}

// TestQueue_CallerLeavesWithItsAnswer_TakesIt: its permits are not lost.
func TestQueue_CallerLeavesWithItsAnswer_TakesIt(t *testing.T) {
	l := open(New(Settings{}), "limiter", 1, time.Hour)
	w := &waiter{Request: Request{Ask: Ask{Permits: 3}, state: answered}, done: make(chan struct{}, 1)}
	e := &entry{queue: new(queue)}
	assert.False(t, l.withdraw(e, w))
	assert.NoError(t, l.timeOut(e, w))
	assert.Equal(t, answered, w.state)
	assert.False(t, l.Engine.abandon(e, &w.Request))
}

func TestQueue_KeyChanges_QueueCallsAgain(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		g := f.engine()
		l := open(g, "both", 10, time.Hour)
		l.DependsOn = []string{"a", "b"}
		f.RequireGranted(l, 10)
		served := make(chan error, 1)
		go func() { _, err := l.Wait(t.Context(), 1, time.Time{}); served <- err }()
		synctest.Wait()
		f.change(l, func(s *state) { s.grants = nil }) // by another program
		before := f.Scripts.Load()
		change(t.Context(), g, "c")
		synctest.Wait()
		assert.Equal(t, before, f.Scripts.Load())
		change(t.Context(), g, "b")
		synctest.Wait()
		require.Len(t, served, 1)
		assert.NoError(t, <-served)
		assert.True(t, g.idle())
		assert.Zero(t, size(&g.dependents.ids), "no state of callers that do not wait")
	})
}
