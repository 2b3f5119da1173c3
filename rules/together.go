package rules

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/blocks"
)

// together does some pieces of work on all processors but one, until one fails, and says whether none did. Each worker is made once.
// While all processors are busy, nobody asks the network for requests but every 10 ms: hence the one that stays free, and on a single
// processor the rests.
func together(pieces int, worker func() func(i int) bool) bool {
	var all sync.WaitGroup
	var next atomic.Int64
	var failed atomic.Bool
	processors := runtime.GOMAXPROCS(0)
	for range min(pieces, max(processors-1, 1)) {
		all.Go(func() {
			rest := func(time.Duration) {}
			if processors == 1 {
				rest = blocks.Rest()
			}
			do := worker()
			for !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= pieces {
					return
				}
				begin := time.Now()
				if !do(i) {
					failed.Store(true)
				}
				rest(time.Since(begin))
				runtime.Gosched()
			}
		})
	}
	all.Wait()
	return !failed.Load()
}
