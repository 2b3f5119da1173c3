package rules

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestARequestOfTheFileBeforeClosesNoDoor: it came before a reload, and goes on behind it. What the new file's doors know of Redis, and
// have granted while that was down, stays.
func TestARequestOfTheFileBeforeClosesNoDoor(t *testing.T) {
	of := func(deadline time.Duration) (*snapshot, settings) {
		s := settings{deadline: deadline}
		return &snapshot{settings: map[settings]struct{}{s: {}}}, s
	}
	closed := 0
	for range 20_000 {
		before, _ := of(time.Second)
		now, kept := of(time.Minute)
		d := &doors[*int]{set: newSet(before), open: func(settings) *int { return new(int) }}
		var others sync.WaitGroup
		for range 4 {
			others.Go(func() { d.now() })
		}
		d.set.current.Store(now)
		d.now()
		door := d.of(kept)
		others.Wait()
		d.now()
		if d.of(kept) != door {
			closed++
		}
	}
	assert.Zero(t, closed, "of 20,000")
}
