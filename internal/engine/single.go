package engine

import (
	"context"
	"errors"
	"hash/maphash"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// single is a call with one request, for a limiter that has no other caller. It has no entry: entries
// and shared batches would cost the client more than the rest of the call.
type single struct {
	limiter *Limiter
	batch   Batch
	request Request
	call    redisx.Call   // in a pipeline
	ended   atomic.Bool   // by the first of the answer and a caller that leaves
	done    chan struct{} // has an element when the call is answered
	busy    *atomic.Int32 // of the limiter
}

func newSingle() any {
	s := &single{done: make(chan struct{}, 1)}
	s.batch.Requests = []*Request{&s.request}
	s.call.Done = s.replied
	return s
}

// askAlone asks Redis with a call of its own. It reports false if the limiter may have other callers:
// then it has asked nothing.
func (l *Limiter) askAlone(ctx context.Context, ask Ask, result *Result) (done bool, err error) {
	g := l.Engine
	p := g.pipelineOf(l.DependsOn[0])
	if l.leases() || p == nil && g.contended.Load() {
		return false, nil
	}
	busy := g.registry.busy.of(l.ID)
	if !busy.CompareAndSwap(0, 1) {
		return false, nil
	}
	g.calling.Add(1)
	s := g.singles.Get().(*single) //nolint:errcheck,forcetypeassert // nothing else is there
	s.limiter, s.busy, s.request.Ask = l, busy, ask
	s.ended.Store(false)
	s.batch.Full, s.batch.receipts = g.denials != nil, ask.Receipt
	s.batch.sent.version = g.denials.version(l)
	atomic.StoreInt32(&s.batch.sent.callers, 1) // the context of an earlier call may be in use still
	ended := ctx.Done()
	switch leads := s.join(ctx, p); {
	case p == nil && ended == nil:
		s.run(ctx)
	case p == nil:
		g.workers.run(func() { s.run(ctx) })
	case leads != nil && ended == nil:
		p.Send(context.WithoutCancel(ctx), leads)
	case leads != nil:
		g.workers.run(func() { p.Send(context.WithoutCancel(ctx), leads) })
	}
	select {
	case <-s.done:
	case <-ended:
		if s.ended.CompareAndSwap(false, true) {
			atomic.StoreInt32(&s.batch.sent.callers, 0)
			return true, ctx.Err()
		}
		<-s.done
	}
	r := &s.request
	r.call.report(ctx, l)
	*result, err = r.Result, r.Err
	*r, s.limiter = Request{}, nil
	s.batch.clearReply()
	s.call.Reply, s.call.Context = rueidis.RedisMessage{}, nil
	g.singles.Put(s)
	return true, err
}

// join adds the call to a pipeline. It returns the pipeline if the call has to send it.
func (s *single) join(ctx context.Context, p *redisx.Pipeline) (leads *redisx.Pipelined) {
	if p == nil {
		return nil
	}
	l, b := s.limiter, &s.batch
	runOrAbort(func() { l.prepare(b) }, s.release)
	s.call.Script, s.call.Keys = l.Protocol.Call(b)
	s.call.Args, s.call.Context = b.Args, ctx
	return p.Add(&s.call)
}

// replied is called when the call has its reply from a pipeline. What needs more calls gets them on
// another goroutine.
func (s *single) replied() {
	l, b, ctx := s.limiter, &s.batch, s.call.Context
	var work func(context.Context, *Batch) error
	switch failed := s.call.Err; {
	case failed == nil:
		again, err := l.read(b, s.call.Reply)
		if !again {
			s.complete(ctx, err)
			return
		}
		work = l.resume
	case errors.Is(failed, ctx.Err()): // the script was unknown, and was not sent again
		s.complete(ctx, ctx.Err())
		return
	case redisx.Repeats(failed):
		work = l.acquire
	default:
		work = func(ctx context.Context, _ *Batch) error { return l.Protocol.Explain(ctx, failed) }
	}
	l.Engine.workers.run(func() { s.finish(ctx, work) })
}

// run runs the call without a pipeline, and completes it.
func (s *single) run(ctx context.Context) { s.finish(ctx, s.limiter.acquire) }

// context returns the context of the call, with the values of ctx. It ends when the caller leaves: see
// callContext.
func (s *single) context(ctx context.Context) context.Context {
	if _, limited := ctx.Deadline(); ctx.Done() == nil && !limited {
		return ctx
	}
	return s.batch.context(ctx)
}

// finish completes the call with the error that work returns.
func (s *single) finish(ctx context.Context, work func(context.Context, *Batch) error) {
	var err error
	runOrAbort(func() { err = work(s.context(ctx), &s.batch) }, func() {
		s.complete(ctx, s.limiter.Protocol.Explain(ctx, redisx.ErrNoReply))
	})
	s.complete(ctx, err)
}

// complete gives the caller its answer, or the error of the call. If it has left, its permits are
// released.
func (s *single) complete(ctx context.Context, err error) {
	l, b := s.limiter, &s.batch
	b.sent.call.finish(0, err)
	left := !s.ended.CompareAndSwap(false, true)
	if left {
		s.request.state = abandoned
	}
	if s.request.deliver(err) {
		b.Lost = append(b.Lost, &s.request)
	}
	b.count(err)
	l.addReceipts(b)
	b.assignCall()
	l.updateDenials(b)
	b.takeCall().reportAlone() // if no caller does
	s.release()
	if left {
		l.releaseLost(ctx, b)
		return
	}
	s.done <- struct{}{}
}

// release records that the call has ended.
func (s *single) release() {
	s.busy.Add(-1)
	s.limiter.Engine.calling.Add(-1)
}

// busy counts the calls of singles, and the entries, by a hash of their IDs.
type busy struct {
	seed   maphash.Seed
	counts [1 << 14]atomic.Int32
}

// of returns the counter of an ID. Few others have the same.
func (b *busy) of(id string) *atomic.Int32 {
	return &b.counts[maphash.String(b.seed, id)%uint64(len(b.counts))]
}
