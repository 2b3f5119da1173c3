package rules

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestTogether: each piece is done once, however many processors there are, and what fails is told. Pieces that cost little are not
// followed by a millisecond of rest each: most of a file that is read again is such pieces.
func TestTogether(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, processors := range []int{1, 2, 5} {
		runtime.GOMAXPROCS(processors)
		done := make([]atomic.Int32, 2000)
		workers := atomic.Int32{}
		begin := time.Now()
		assert.True(t, together(len(done), func() func(i int) bool {
			workers.Add(1)
			return func(i int) bool {
				for begin := time.Now(); time.Since(begin) < 20*time.Microsecond; {
				}
				return done[i].Add(1) == 1
			}
		}), "%d processors", processors)
		assert.Less(t, time.Since(begin), time.Second, "%d processors", processors) // 0.1 s at most; with such rests 2 s
		assert.EqualValues(t, processors, workers.Load())
		for i := range done {
			assert.EqualValues(t, 1, done[i].Load(), "piece %d, %d processors", i, processors)
		}
		assert.False(t, together(100, func() func(i int) bool { return func(i int) bool { return i != 50 } }), "%d processors", processors)
	}
	assert.True(t, together(0, nil))
}
