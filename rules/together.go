package rules

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
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
				rest = asleep()
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

// asleep rests as long as was worked. On Linux a sleep takes a millisecond or more, which is several pieces of work: what one was too
// long counts for the next.
func asleep() func(worked time.Duration) {
	owed := time.Duration(0)
	return func(worked time.Duration) {
		owed += worked
		begin := time.Now()
		time.Sleep(owed)
		owed = max(owed-time.Since(begin), -time.Millisecond)
	}
}
