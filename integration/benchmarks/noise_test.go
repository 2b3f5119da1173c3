package benchmarks

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// noise has what a run measures of the machine before each benchmark, while nothing of it runs: the
// share of the processors that others use, and the pace.
var noise struct{ others, pace []float64 }

func measureNoise() {
	const idle = 100 * time.Millisecond
	busyBefore, allBefore := processorTicks()
	time.Sleep(idle)
	busy, all := processorTicks()
	if all > allBefore {
		noise.others = append(noise.others, float64(busy-busyBefore)/float64(all-allBefore))
	}
	noise.pace = append(noise.pace, pace())
}

// processorTicks reads the ticks of all processors since the start of the machine from Linux, those
// that its host took included.
func processorTicks() (busy, all int64) {
	text, _ := os.ReadFile("/proc/stat") // elsewhere the share is not known
	var user, nice, system, idle, iowait, irq, softirq, steal int64
	_, _ = fmt.Sscanf(string(text), "cpu %d %d %d %d %d %d %d %d",
		&user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal)
	busy = user + nice + system + irq + softirq + steal
	return busy, busy + idle + iowait
}

// pace returns how often in a microsecond two processors pass a number to each other. A host may move
// them, and goroutines that share memory become slower or faster.
func pace() float64 {
	const lasting = 10 * time.Millisecond
	var passed atomic.Int64
	var both sync.WaitGroup
	start := time.Now()
	for self := range int64(2) {
		both.Go(func() {
			for time.Since(start) < lasting {
				if n := passed.Load(); n%2 == self {
					passed.Store(n + 1)
				}
			}
		})
	}
	both.Wait()
	return float64(passed.Load()) / float64(time.Since(start).Microseconds())
}

// reportNoise prints a line as of a benchmark: the mean of what others use, and of the pace the median
// and the lowest tenth.
func reportNoise() {
	if len(noise.others) == 0 {
		return
	}
	var sum float64
	for _, share := range noise.others {
		sum += share
	}
	slices.Sort(noise.pace)
	fmt.Printf("BenchmarkNoise/library=machine 1 %.4f others %.4f pace %.4f slow-pace\n", sum/float64(len(noise.others)),
		noise.pace[len(noise.pace)/2], noise.pace[len(noise.pace)/10])
}

func TestNoise_BusyProcess_IsSeen(t *testing.T) {
	busy, all := processorTicks()
	if all == 0 {
		t.Skip("no /proc/stat")
	}
	for start := time.Now(); time.Since(start) < 100*time.Millisecond; {
		_ = strings.Repeat("x", 100)
	}
	nowBusy, nowAll := processorTicks()
	require.Greater(t, nowBusy, busy)
	require.GreaterOrEqual(t, nowAll-all, nowBusy-busy)
}
