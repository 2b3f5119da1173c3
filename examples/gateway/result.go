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

// result is the result of a load.
type result struct {
	load load
	took time.Duration

	mu        sync.Mutex
	by        map[int]*replies
	latencies []time.Duration
	failed    int
	err       error // the first one
}

// replies has the replies of one status.
type replies struct {
	count int
	retry map[string]int // by Retry-After
}

func (r *result) add(s reply) {
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
		a = &replies{retry: make(map[string]int)}
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
	fmt.Fprintf(&b, "%d requests of %d clients to %s in %v\n\n",
		total, r.load.clients, r.load.url, r.took.Round(100*time.Millisecond))
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintf(w, "status\trequests\tshare\tRetry-After: requests\n")
	for _, status := range slices.Sorted(maps.Keys(r.by)) {
		a := r.by[status]
		share := 100 * float64(a.count) / float64(total)
		retries := cmp.Or(strings.Join(a.retries(), ", "), "-")
		_, _ = fmt.Fprintf(w, "%d\t%d\t%.1f %%\t%s\n", status, a.count, share, retries)
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

// retries returns the values of Retry-After with their counts, the shortest value first.
func (a *replies) retries() []string {
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

// percentile returns the shortest latency that p percent of the requests do not exceed.
func (r *result) percentile(p int) time.Duration {
	return r.latencies[(len(r.latencies)*p+99)/100-1].Round(10 * time.Microsecond)
}
