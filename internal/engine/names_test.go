package engine

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func freshNames() (*Engine, *registry) {
	g := New(Settings{})
	return g, &g.registry
}

func named(g *Engine, name string) *Limiter {
	return &Limiter{Engine: g, ID: name, Name: name}
}

// TestRegistry_NothingUnderWay_EntryIsGone, also for the Limiter that has met it.
func TestRegistry_NothingUnderWay_EntryIsGone(t *testing.T) {
	g, n := freshNames()
	a := named(g, "a")
	e := n.lock(a)
	e.calls = 1
	n.unlock(e)
	assert.EqualValues(t, 1, n.live.Load())

	e = n.lock(a)
	e.calls = 0
	n.unlock(e)
	assert.True(t, e.gone)
	assert.Zero(t, n.live.Load())
	assert.Nil(t, n.find("a"))

	again := n.lock(a)
	assert.NotSame(t, e, again)
	again.calls = 1
	n.unlock(again)
	found := n.find("a")
	assert.Same(t, again, found)
	n.unlock(found)
	assert.EqualValues(t, 1, n.live.Load())
}

// TestAnEntryInUseStays, whatever it is used for.
func TestAnEntryInUseStays(t *testing.T) {
	for name, use := range map[string]func(e *entry){
		"gathering": func(e *entry) { e.push(new(Batch)) },
		"calls":     func(e *entry) { e.calls = 1 },
		"queue":     func(e *entry) { e.queue = new(queue) },
	} {
		g, n := freshNames()
		e := n.lock(named(g, "a"))
		use(e)
		n.unlock(e)
		found := n.find("a")
		if assert.Same(t, e, found, name) {
			n.unlock(found)
		}
	}
}

// TestRegistry_CallerBetweenTheLocksOfUnlock_EntryStays.
func TestRegistry_CallerBetweenTheLocksOfUnlock_EntryStays(t *testing.T) {
	g, n := freshNames()
	e := n.lock(named(g, "a"))
	s := n.shard("a")
	s.mu.Lock()
	done := make(chan bool)
	go func() { n.unlock(e); done <- true }()
	for !e.mu.TryLock() { // it has let go of the entry, and waits for the names
		runtime.Gosched()
	}
	e.calls = 1
	e.mu.Unlock()
	s.mu.Unlock()
	<-done
	assert.False(t, e.gone)
	assert.EqualValues(t, 1, n.live.Load())
	assert.Same(t, e, s.byID.all["a"])
}

// TestNamesSpread over the locks, so that few wait for each other's.
func TestNamesSpread(t *testing.T) {
	_, n := freshNames()
	used := map[*shard]bool{}
	for i := range 10_000 {
		used[n.shard(fmt.Sprint("user:", i))] = true
	}
	assert.Len(t, used, len(n.shards))
}

// TestANameDoesNotWaitForAnother is Issue 9, point 9.
func TestANameDoesNotWaitForAnother(t *testing.T) {
	inBubble(t, func(b *bubble) {
		g := b.engine()
		l, other := open(g, "limiter", 10, time.Hour), open(g, "other", 10, time.Hour)
		e := g.registry.lock(&l.Limiter)
		granted, err := other.Wait(b.Context(), 1, time.Time{}) // hangs where the names share a lock
		require.NoError(b, err)
		require.True(b, granted)
		b.take(other, 1)
		g.registry.unlock(e)
		synctest.Wait()
		assert.True(b, g.Idle())
	})
}
