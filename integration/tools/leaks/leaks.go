// Package leaks counts what a run has left behind in this process.
package leaks

import (
	"runtime"
	"slices"
	"strings"
	"time"
)

// Library is how the functions of the library's packages begin in a stack.
var Library = []string{
	"github.com/rratelimiter/rratelimiter.", "github.com/rratelimiter/rratelimiter/internal/engine.",
	"github.com/rratelimiter/rratelimiter/internal/guard.",
	"github.com/rratelimiter/rratelimiter/limit.", "github.com/rratelimiter/rratelimiter/httplimit.",
}

// clients is Library and the Redis client.
var clients = append([]string{"github.com/redis/rueidis."}, Library...)

// Goroutines counts those above before, the number that there were when all was idle. It gives
// those that are about to end some time, and asks on this goroutine: a helper's own would count
// too.
func Goroutines(before int, timeout time.Duration) int {
	return settle(timeout, func() int { return max(0, runtime.NumGoroutine()-before) })
}

// OfLimiters counts the goroutines that run in the library, while the Redis client keeps its own.
func OfLimiters(timeout time.Duration) int {
	return mentioning(timeout, Library...)
}

// OfClients counts the goroutines that run in the library or in rueidis, for runs whose proxies
// keep some of their own.
func OfClients(timeout time.Duration) int {
	return mentioning(timeout, clients...)
}

// ClientsNow is how many goroutines run in the limiter's package or in rueidis at this moment, for
// AboveClients.
func ClientsNow() int {
	return count(clients...)
}

// AboveClients is OfClients without those that an idle rueidis client keeps.
func AboveClients(idle int, timeout time.Duration) int {
	return settle(timeout, func() int { return max(0, ClientsNow()-idle) })
}

// mentioning counts the goroutines whose stacks show one of some packages.
func mentioning(timeout time.Duration, packages ...string) int {
	return settle(timeout, func() int { return count(packages...) })
}

func count(packages ...string) (n int) {
	for stack := range strings.SplitSeq(Stacks(), "\n\n") {
		if slices.ContainsFunc(packages, func(name string) bool { return strings.Contains(stack, name) }) {
			n++
		}
	}
	return n
}

// Stacks are those of all goroutines, for a test's message.
func Stacks() string {
	for size := 1 << 20; ; size *= 2 {
		all := make([]byte, size)
		if n := runtime.Stack(all, true); n < size {
			return string(all[:n])
		}
	}
}

// Heap is how many bytes the process holds once all garbage is gone. A pool lets go of what it
// holds at the second collection.
func Heap() int64 {
	for range 3 {
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// settle counts until there is nothing left or the timeout ends.
func settle(timeout time.Duration, counted func() int) int {
	ended := time.Now().Add(timeout)
	for {
		left := counted()
		if left == 0 || time.Now().After(ended) {
			return left
		}
		time.Sleep(20 * time.Millisecond)
	}
}
