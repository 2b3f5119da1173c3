package engine

import (
	"context"
	"sync"
	"time"
)

// workers run the calls whose callers can leave. A goroutine is kept for the next such call, for a moment: its stack has
// grown by then to what a call needs, which costs a lone caller a tenth of its time otherwise. make bench measures it.
type workers struct {
	mu       sync.Mutex
	idle     []*worker // who became idle last comes last, and works next
	unused   int       // so many of them, the first, have not worked since the last sweep
	sweeping bool
}

// kept is how long an idle worker stays, and no longer than twice that.
const kept = 20 * time.Millisecond

// worker is one goroutine and what it is to do.
type worker struct {
	task
	again chan bool // false: it is to end
}

// task is batches to carry, or a pipeline to flush.
type task struct {
	ctx      context.Context
	limiter  *Limiter
	entry    *entry
	pipeline *pipelineBatch
}

func (t *task) run() {
	if t.pipeline != nil {
		t.limiter.Engine.flush(t.ctx, t.pipeline)
		return
	}
	t.limiter.carry(t.ctx, t.entry, false)
}

// carry runs Limiter.carry on a worker.
func (s *workers) carry(ctx context.Context, l *Limiter, e *entry) {
	s.start(task{ctx: ctx, limiter: l, entry: e})
}

// flush runs Engine.flush on a worker.
func (s *workers) flush(ctx context.Context, l *Limiter, d *pipelineBatch) {
	s.start(task{ctx: ctx, limiter: l, pipeline: d})
}

func (s *workers) start(t task) {
	s.mu.Lock()
	if last := len(s.idle) - 1; last >= 0 {
		w := s.idle[last]
		s.idle = s.idle[:last]
		s.unused = min(s.unused, last)
		s.mu.Unlock()
		w.task = t
		w.again <- true
		return
	}
	s.mu.Unlock()
	w := &worker{t, make(chan bool, 1)}
	go func() {
		for more := true; more; more = <-w.again {
			w.run()
			w.task = task{}
			s.rest(w)
		}
	}()
}

// rest puts a worker that has nothing to do among the idle.
func (s *workers) rest(w *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, w)
	if !s.sweeping {
		s.sweeping = true
		time.AfterFunc(kept, s.sweep)
	}
}

// sweep ends the workers that were idle all the time since the last one.
func (s *workers) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.idle[:s.unused] {
		w.again <- false
	}
	rest := copy(s.idle, s.idle[s.unused:])
	clear(s.idle[rest:])
	s.idle, s.unused = s.idle[:rest], rest
	// Those at work begin another round when they rest.
	if s.sweeping = rest > 0; s.sweeping {
		time.AfterFunc(kept, s.sweep)
	}
}
