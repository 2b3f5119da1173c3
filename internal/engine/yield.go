package engine

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

// A yield in a busy process lasts until all of its goroutines have run. If it brings no caller, the
// process is busy with other work, and calls stop to yield for a while.
const (
	longestYield = 5 * time.Millisecond // a yield that lasts longer shows that the process is busy
	busyCalls    = 1000                 // calls that do not yield then
)

// yields lets callers join a call that is about to be sent.
type yields struct {
	skips atomic.Int64 // calls that do not yield, since the process is busy
}

// collect yields as long as each yield brings callers, until there are enough.
func (y *yields) collect(enough int, callers func() int) {
	for before := 0; before < enough && y.yield(callers); {
		now := callers()
		if now == before {
			return
		}
		before = now
	}
}

// alone is the number of callers of a call that no other caller can join.
func alone() int { return 1 }

// yield lets other goroutines run, and reports whether the process is not too busy for that.
func (y *yields) yield(callers func() int) bool {
	if y.skips.Load() > 0 {
		y.skips.Add(-1)
		return false
	}
	start := time.Now()
	runtime.Gosched()
	if time.Since(start) <= longestYield {
		return true
	}
	if callers() == 1 {
		y.skips.Store(busyCalls)
	}
	return false
}

// workers runs tasks on goroutines of the Engine. A goroutine that is idle waits for the next task
// for a moment: its stack has grown to the size that a call needs.
type workers chan task

// task is the lone call of a batch, or the calls of an entry.
type task struct {
	l   *Limiter
	ctx context.Context //nolint:containedctx // of a caller, for its values
	e   *entry
	b   *Batch // nil for the calls of e
}

func (t task) do() {
	if t.b != nil {
		t.l.run(t.ctx, nil, t.b)
	} else {
		t.l.sendBatches(t.ctx, t.e, false)
	}
}

// idleFor is how long a worker waits for a task. A goroutine outlives the last command by no more than
// that and the longest pause of redisx, together a tenth of a second.
const idleFor = 10 * time.Millisecond

func (w workers) run(t task) {
	select {
	case w <- t:
	default:
		go w.work(t)
	}
}

func (w workers) work(t task) {
	idle := time.NewTimer(idleFor)
	defer idle.Stop()
	for {
		t.do()
		idle.Reset(idleFor)
		select {
		case t = <-w:
		case <-idle.C:
			return
		}
	}
}
