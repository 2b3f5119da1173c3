package main

import (
	"context"
	"fmt"
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

// take returns a sample.
func take(ctx context.Context, at time.Duration, l *loads, cluster *servers.Cluster) (sample, error) {
	s := sample{at: at, goroutines: runtime.NumGoroutine(), p99: make(map[string]time.Duration)}
	for _, one := range l.all {
		s.p99[one.name] = one.percentile99()
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
		if err != nil {
			return s, err
		}
		if field(info, "role") != "master" {
			continue
		}
		used, err := strconv.ParseInt(field(info, "used_memory"), 10, 64)
		if err != nil {
			return s, err
		}
		s.redis += used
	}
	return s, nil
}

// field returns a field of INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
