package engine

import (
	"runtime"
	"sync/atomic"
	"time"
)

// A process whose other goroutines keep the processors busy gets back to a call that yields only after all of them.
const (
	longestYield = 5 * time.Millisecond // yielding took longer: the process is busy
	hastyCalls   = 1000                 // so many calls do not yield then
)

// yields decides whether calls yield to those who are about to join them.
type yields struct {
	hasty atomic.Int64 // how many calls still do not
}

// yield lets other goroutines run, and says whether that may be done again.
func (c *yields) yield() bool {
	if c.hasty.Load() > 0 {
		c.hasty.Add(-1)
		return false
	}
	start := time.Now()
	runtime.Gosched()
	if time.Since(start) > longestYield {
		c.hasty.Store(hastyCalls)
		return false
	}
	return true
}

// mostCompany is how many calls in a row change what is common, twice over.
const mostCompany = 8

// company says whether calls have company: whether they carry several callers, or are not the only ones for their name.
type company struct {
	last  atomic.Bool
	calls atomic.Int32 // how many had, of the last ones in pipelines
}

// saw counts a call.
func (c *company) saw(had, piped bool) {
	if c.last.Load() != had {
		c.last.Store(had)
	}
	if !piped {
		return
	}
	switch calls := c.calls.Load(); {
	case had && calls < mostCompany:
		c.calls.Store(calls + 1)
	case !had && calls > 0:
		c.calls.Store(calls - 1)
	}
}

func (c *company) common() bool { return c.calls.Load() > mostCompany/2 }
