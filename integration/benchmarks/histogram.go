package main

import (
	"math/bits"
	"time"
)

// histogram counts latencies to within 1/64 of their size, up to 17 s.
type histogram [29 * 64]uint32

func (h *histogram) add(d time.Duration) {
	n := uint64(min(max(d, 0), 1<<34-1))
	shift := max(0, bits.Len64(n)-7)
	h[shift*64+int(n>>shift)]++
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other {
		h[i] += n
	}
}

// calls returns the number of counted calls.
func (h *histogram) calls() (total uint64) {
	for _, n := range h {
		total += uint64(n)
	}
	return total
}

// quantile returns the latency that the share q of all calls did not exceed.
func (h *histogram) quantile(q float64) time.Duration {
	total := h.calls()
	var seen uint64
	for i, n := range h {
		if seen += uint64(n); n > 0 && float64(seen) >= q*float64(total) {
			shift := max(0, i/64-1)
			return time.Duration(i-shift*64)<<shift + time.Duration(1)<<shift/2
		}
	}
	return 0
}
