package engine

import (
	"fmt"
	"runtime"
	"testing"

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

// The maps of a Client become small again once a peak of names is over, whether names remain or not.
func TestRegistry_PeakOfNamesOver_FreesItsMemory(t *testing.T) {
	for name, stay := range map[string]int{"no name stays": 0, "some stay": 100} {
		t.Run(name, func(t *testing.T) {
			const peak = 150_000
			g, n := freshNames()
			before := heap()
			names := func(from int, change func(e *entry, l *Limiter)) {
				for i := from; i < peak; i++ {
					l := named(g, fmt.Sprint("user:", i))
					l.Subjects = []string{l.ID}
					e := n.lock(l)
					change(e, l)
					n.unlock(e)
				}
			}
			names(0, func(e *entry, l *Limiter) { e.calls = 1; g.holders.add(l.ID, l.subjects()) })
			names(stay, func(e *entry, l *Limiter) { e.calls = 0; g.holders.remove(l.ID, l.subjects()) })
			assert.EqualValues(t, stay, n.live.Load())
			assert.Less(t, heap()-before, int64(200_000))
			runtime.KeepAlive(g)
		})
	}
}
