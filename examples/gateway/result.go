package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// result is what came back of a load.
type result struct {
	load load
	took time.Duration

	mu        sync.Mutex
	by        map[int]*answers
	latencies []time.Duration
	failed    int
	err       error // the first one
}

// answers is those of one status.
type answers struct {
	count int
	retry map[string]int // by Retry-After
}

func (r *result) add(s shot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.err != nil {
		r.failed++
		if r.err == nil {
			r.err = s.err
		}
		return
	}
	a := r.by[s.status]
	if a == nil {
		a = &answers{retry: make(map[string]int)}
		r.by[s.status] = a
	}
	a.count++
	if s.retryAfter != "" {
		a.retry[s.retryAfter]++
	}
	r.latencies = append(r.latencies, s.latency)
}

func (r *result) String() string {
	total := r.failed + len(r.latencies)
	var b strings.Builder
	fmt.Fprintf(&b, "%d requests of %d clients to %s in %v\n\n", total, r.load.clients, r.load.url, r.took.Round(100*time.Millisecond))
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintf(w, "status\trequests\tshare\tRetry-After: requests\n")
	for _, status := range slices.Sorted(maps.Keys(r.by)) {
		a := r.by[status]
		_, _ = fmt.Fprintf(w, "%d\t%d\t%.1f %%\t%s\n", status, a.count, 100*float64(a.count)/float64(total), cmp.Or(strings.Join(a.retries(), ", "), "-"))
	}
	if r.failed > 0 {
		_, _ = fmt.Fprintf(w, "none\t%d\t%.1f %%\t%v\n", r.failed, 100*float64(r.failed)/float64(total), r.err)
	}
	_ = w.Flush()
	if len(r.latencies) > 0 {
		slices.Sort(r.latencies)
		fmt.Fprintf(&b, "\nlatency: p50 %v, p99 %v, longest %v\n", r.percentile(50), r.percentile(99), r.percentile(100))
	}
	return b.String()
}

// retries tells the values of Retry-After, the shortest first.
func (a *answers) retries() []string {
	values := slices.SortedFunc(maps.Keys(a.retry), func(x, y string) int {
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		return strings.Compare(x, y)
	})
	for i, value := range values {
		unit := " s"
		if strings.Trim(value, "0123456789") != "" { // a date
			unit = ""
		}
		values[i] = fmt.Sprintf("%s%s: %d", value, unit, a.retry[value])
	}
	return values
}

// percentile is the shortest latency that so many in a hundred do not exceed.
func (r *result) percentile(p int) time.Duration {
	return r.latencies[(len(r.latencies)*p+99)/100-1].Round(10 * time.Microsecond)
}
