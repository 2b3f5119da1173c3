package main

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// sample is what is plotted at one time.
type sample struct {
	at         time.Duration
	heap       uint64 // bytes in use after a collection
	redis      int64  // bytes used by all masters
	goroutines int
	p99        map[string]time.Duration
}

func (s sample) String() string {
	return fmt.Sprintf("%v: heap %.1f MB, Redis %.1f MB, %d goroutines, p99 %v", s.at.Round(time.Second),
		float64(s.heap)/1e6, float64(s.redis)/1e6, s.goroutines, s.p99)
}

var usedMemory = regexp.MustCompile(`\bused_memory:(\d+)`)

// take returns a sample.
func take(ctx context.Context, at time.Duration, loads []*load, cluster *servers.Cluster) (sample, error) {
	s := sample{at: at, goroutines: runtime.NumGoroutine(), p99: make(map[string]time.Duration)}
	for _, l := range loads {
		s.p99[l.name] = l.percentile99()
	}
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	s.heap = stats.HeapInuse
	for _, node := range cluster.Nodes() {
		message, err := node.Do(ctx, "INFO")
		if err != nil {
			return s, err
		}
		info, err := message.ToString()
		used := usedMemory.FindStringSubmatch(info)
		if err != nil || used == nil {
			return s, fmt.Errorf("soak: INFO of %s: %q: %w", node.Addr(), info, err)
		}
		if strings.Contains(info, "role:master") {
			bytes, _ := strconv.ParseInt(used[1], 10, 64)
			s.redis += bytes
		}
	}
	return s, nil
}
