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

func freshNames() (*Engine, *names) {
	g := New(Settings{})
	return g, &g.names
}

func named(g *Engine, name string) *Limiter {
	return &Limiter{Engine: g, ID: name, Name: name}
}

// TestAnEntryIsOneNamesAtATime: one that was put away is another name's next, whoever met it before.
func TestAnEntryIsOneNamesAtATime(t *testing.T) {
	g, n := freshNames()
	a, b := named(g, "a"), named(g, "b")
	e := n.lock(a)
	e.calls = 1
	n.unlock(e)
	assert.EqualValues(t, 1, n.live.Load())

	e = n.lock(a)
	e.calls = 0
	n.unlock(e)
	assert.Zero(t, n.live.Load())
	assert.Nil(t, n.find("a"))
	assert.Empty(t, e.id, "out of use")

	// As if the pool gave the same one to another name.
	n.entries.New = func() any { return e }
	other := n.lock(b)
	other.calls = 1
	n.unlock(other)
	n.entries.New = func() any { return new(entry) }
	again := n.lock(a)
	assert.NotSame(t, other, again)
	assert.Equal(t, "a", again.id)
	again.calls = 1
	n.unlock(again)
	found := n.find("a")
	assert.Same(t, again, found)
	n.unlock(found)
	assert.EqualValues(t, 2, n.live.Load())
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

// TestAnEntryThatIsTakenUpAgainStays: somebody may come between the two locks of unlock, and find the name, or find it gone
// and the entry another's.
func TestAnEntryThatIsTakenUpAgainStays(t *testing.T) {
	for name, meanwhile := range map[string]func(e *entry){
		"by its name":    func(e *entry) { e.calls = 1 },
		"by another one": func(e *entry) { e.id = "b" },
	} {
		t.Run(name, func(t *testing.T) {
			g, n := freshNames()
			e := n.lock(named(g, "a"))
			s := n.shard("a")
			s.mu.Lock()
			done := make(chan bool)
			go func() { n.unlock(e); done <- true }()
			for !e.mu.TryLock() { // it has let go of the entry, and waits for the names
				runtime.Gosched()
			}
			meanwhile(e)
			id := e.id
			e.mu.Unlock()
			s.mu.Unlock()
			<-done
			assert.Equal(t, id, e.id)
			assert.EqualValues(t, 1, n.live.Load())
			assert.Same(t, e, s.byID["a"])
		})
	}
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
		e := g.names.lock(&l.Limiter)
		granted, err := other.Wait(b.Context(), 1, time.Time{}) // hangs where the names share a lock
		require.NoError(b, err)
		require.True(b, granted)
		b.take(other, 1)
		g.names.unlock(e)
		synctest.Wait()
		assert.True(b, g.Idle())
	})
}
