// Package leaks counts goroutines and memory that a run leaves in this process.
package leaks

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// Library has the first parts of the names of the library's functions in a stack.
var Library = []string{
	"github.com/rratelimiter/rratelimiter.", "github.com/rratelimiter/rratelimiter/internal/engine.",
	"github.com/rratelimiter/rratelimiter/internal/guard/gate.", "github.com/rratelimiter/rratelimiter/internal/guard/outage.",
	"github.com/rratelimiter/rratelimiter/limit.", "github.com/rratelimiter/rratelimiter/httplimit.",
}

// clients is Library with the Redis client.
var clients = append([]string{"github.com/redis/rueidis."}, Library...)

// Main runs the tests of a package, and fails if they leave goroutines in the library or in rueidis.
// The tests wait for most of their time, so more of them run at once than there are processors. It
// returns the exit code.
func Main(m *testing.M) int {
	if err := flag.Set("test.parallel", "4"); err != nil { // -parallel overrides it
		panic(err)
	}
	code := m.Run()
	// rueidis closes some connections after 5 s.
	if left := AboveClients(0, 30*time.Second); left > 0 {
		fmt.Fprintf(os.Stderr, "%d goroutines are left:\n%s\n", left, Stacks())
		return 1
	}
	return code
}

// Goroutines counts goroutines above an earlier number, after a time for those that are ending. It
// runs on this goroutine, since another one would count.
func Goroutines(before int, timeout time.Duration) int {
	return settle(timeout, func() int { return max(0, runtime.NumGoroutine()-before) })
}

// OfLimiters counts the goroutines in the library, without those of the Redis client.
func OfLimiters(timeout time.Duration) int {
	return settle(timeout, func() int { return count(Library...) })
}

// ClientsNow returns how many goroutines are in the library or in rueidis now, for AboveClients.
func ClientsNow() int {
	return count(clients...)
}

// AboveClients counts the goroutines in the library or in rueidis, without those that an idle rueidis
// client keeps.
func AboveClients(idle int, timeout time.Duration) int {
	return settle(timeout, func() int { return max(0, ClientsNow()-idle) })
}

// count counts the goroutines with a package in their stacks.
func count(packages ...string) (n int) {
	for stack := range strings.SplitSeq(Stacks(), "\n\n") {
		if slices.ContainsFunc(packages, func(name string) bool { return strings.Contains(stack, name) }) {
			n++
		}
	}
	return n
}

// Stacks returns the stacks of all goroutines, for messages of tests.
func Stacks() string {
	for size := 1 << 20; ; size *= 2 {
		all := make([]byte, size)
		if n := runtime.Stack(all, true); n < size {
			return string(all[:n])
		}
	}
}

// Heap returns the bytes of the process without garbage. A pool frees its contents at the second
// collection.
func Heap() int64 {
	for range 3 {
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// settle counts until the count is 0 or the timeout ends.
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
