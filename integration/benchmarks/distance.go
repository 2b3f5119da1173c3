package main

import (
	"runtime"
	"sync/atomic"
	"time"
)

// distance is how long a line of cache takes from one processor to another and back, in
// nanoseconds. If a host moves its virtual processors, it changes from minute to minute, and with
// it the speed of callers that share memory.
func distance() float64 {
	// The two sides may begin on one processor, where each trip takes a time slice.
	shortest := distanceNow()
	for range 9 {
		shortest = min(shortest, distanceNow())
	}
	return shortest
}

func distanceNow() float64 {
	const trips = 500
	var turn atomic.Int64 // odd if the other goroutine has to move
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for n := turn.Load(); n < 2*trips; n = turn.Load() {
			if n%2 == 1 {
				turn.Store(n + 1)
			}
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	time.Sleep(time.Millisecond)
	start := time.Now()
	for n := int64(0); n < 2*trips; n += 2 {
		turn.Store(n + 1)
		for turn.Load() == n+1 {
		}
	}
	return float64(time.Since(start).Nanoseconds()) / trips
}
