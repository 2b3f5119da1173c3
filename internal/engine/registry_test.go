package engine

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// heap returns the bytes in use.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// The maps of a Client become small again once a peak of names is over, whether names remain or
// not.
func TestRegistry_PeakOfNamesOver_FreesItsMemory(t *testing.T) {
	for name, stay := range map[string]int{"no name stays": 0, "some stay": 100} {
		t.Run(name, func(t *testing.T) {
			const peak = 10_000
			g, n := freshNames()
			before := heap()
			names := func(from int, change func(e *entry, l *Limiter)) {
				for i := from; i < peak; i++ {
					l := named(g, fmt.Sprint("user:", i))
					e := n.lockEntry(l.ID)
					change(e, l)
					n.unlockEntry(e)
				}
			}
			names(0, func(e *entry, l *Limiter) { e.calls = 1; n.index.add(e, l.DependsOn) })
			names(stay, func(e *entry, _ *Limiter) { e.calls = 0 })
			assert.Len(t, n.all(), stay)
			assert.Equal(t, stay, size(&n.index.keys))
			assert.Less(t, heap()-before, int64(200_000))
			runtime.KeepAlive(g)
		})
	}
}

func freshNames() (*Engine, *registry) {
	g := New(Settings{})
	return g, &g.registry
}

func named(g *Engine, name string) *Limiter {
	return &Limiter{Engine: g, ID: name, Name: name, DependsOn: []string{name}, Tick: time.Millisecond}
}

// TestRegistry_EntryRemovedBeforeACallerLocksIt_CallerGetsAnother: the caller has found the entry
// and waits for its lock while it is removed.
func TestRegistry_EntryRemovedBeforeACallerLocksIt_CallerGetsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(registry)
		for _, get := range []func() *entry{func() *entry { return n.lockEntry("a") },
			func() *entry { return n.lockExisting("a") }} {
			e := n.lockEntry("a")
			got := make(chan *entry, 1)
			go func() { got <- get() }()
			for range 100 {
				runtime.Gosched() // it waits for the lock then
			}
			n.unlockEntry(e)
			if other := <-got; other != nil {
				assert.NotSame(t, e, other)
				assert.False(t, other.removed)
				n.unlockEntry(other)
			}
			assert.Empty(t, n.all())
		}
	})
}
