package rules

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestTogether: each piece is done once, however many processors there are, and what fails is told.
func TestTogether(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, processors := range []int{1, 2, 5} {
		runtime.GOMAXPROCS(processors)
		done := make([]atomic.Int32, 2000)
		workers := atomic.Int32{}
		assert.True(t, together(len(done), func() func(i int) bool {
			workers.Add(1)
			return func(i int) bool { return done[i].Add(1) == 1 }
		}), "%d processors", processors)
		assert.EqualValues(t, max(processors-1, 1), workers.Load(), "%d processors", processors)
		for i := range done {
			assert.EqualValues(t, 1, done[i].Load(), "piece %d, %d processors", i, processors)
		}
		assert.False(t, together(100, func() func(i int) bool { return func(i int) bool { return i != 50 } }), "%d processors", processors)
	}
	assert.True(t, together(0, nil))
}
