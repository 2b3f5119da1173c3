package rules

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestARequestOfTheFileBeforeClosesNoDoor: it came before a reload, and goes on behind it. What the new file's doors know of Redis, and
// have granted while that was down, stays.
func TestARequestOfTheFileBeforeClosesNoDoor(t *testing.T) {
	of := func(deadline time.Duration) (*snapshot, settings) {
		s := settings{deadline: deadline}
		return &snapshot{settings: map[settings]bool{s: true}}, s
	}
	closed := 0
	for range 2000 {
		before, _ := of(time.Second)
		now, kept := of(time.Minute)
		d := &doors[*int]{set: newSet(before), open: func(settings) *int { return new(int) }}
		var others sync.WaitGroup
		var begun, over atomic.Bool
		others.Go(func() {
			for ; !over.Load(); begun.Store(true) {
				d.now()
			}
		})
		for !begun.Load() {
			runtime.Gosched()
		}
		d.set.current.Store(now)
		d.now()
		door := d.of(kept)
		over.Store(true)
		others.Wait()
		d.now()
		if d.of(kept) != door {
			closed++
		}
	}
	assert.Zero(t, closed, "of 2000")
}
