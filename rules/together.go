package rules

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// together does some pieces of work on all processors, until one fails, and says whether none did. Each worker is made once. The last
// one rests until the first has done a piece, half of its time that is: while all processors are busy, nobody asks the network for
// requests but every 10 ms.
func together(pieces int, worker func() func(i int) bool) bool {
	var all sync.WaitGroup
	var next atomic.Int64
	var failed atomic.Bool
	processors := runtime.GOMAXPROCS(0)
	first := make(chan struct{})
	for w := range min(pieces, processors) {
		all.Go(func() {
			rest := func(time.Duration) {}
			switch {
			case processors == 1:
				rest = asleep()
			case w == 0:
				defer close(first)
				rest = func(time.Duration) {
					select {
					case first <- struct{}{}:
					default: // nobody rests
					}
				}
			case w == processors-1:
				rest = func(time.Duration) { <-first }
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
