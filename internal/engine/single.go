package engine

import (
	"context"
	"hash/maphash"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// single is a call with one request, for a limiter that has no other caller. It is sent in a pipeline
// and has no entry: with calls for many limiters, entries and shared batches would cost the client
// more than the rest of the call.
type single struct {
	limiter *Limiter
	batch   Batch
	request Request
	call    redisx.Call
	ended   atomic.Bool   // by the first of the reply and a caller that leaves
	done    chan struct{} // has an element when the call is answered
	busy    *atomic.Int32 // of the limiter
}

func newSingle() any {
	s := &single{done: make(chan struct{}, 1)}
	s.batch.Requests = []*Request{&s.request}
	s.call.Done = s.replied
	return s
}

// askAlone asks Redis with a call of its own. It reports false if the limiter may have other callers, or
// if its script needs more than one call. Then nothing was granted.
func (l *Limiter) askAlone(ctx context.Context, ask Ask, result *Result) (done bool, err error) {
	g := l.Engine
	p := g.pipelineOf(l.DependsOn[0])
	if p == nil || l.leases() {
		return false, nil
	}
	busy := g.registry.busy.of(l.ID)
	if !busy.CompareAndSwap(0, 1) {
		return false, nil
	}
	g.calling.Add(1)
	s := g.singles.Get().(*single) //nolint:errcheck,forcetypeassert // nothing else is there
	s.limiter, s.busy, s.request.Ask = l, busy, ask
	runOrAbort(func() { s.prepare(ctx) }, s.release)
	ended := ctx.Done()
	if d := p.Add(&s.call); d != nil {
		detached := context.WithoutCancel(ctx)
		if ended == nil {
			p.Send(detached, d)
		} else {
			g.workers.run(func() { p.Send(detached, d) })
		}
	}
	if ended == nil {
		<-s.done // a select takes longer
		return s.answer(ctx, result)
	}
	select {
	case <-s.done:
	case <-ended:
		if s.ended.CompareAndSwap(false, true) {
			return true, ctx.Err()
		}
		<-s.done
	}
	return s.answer(ctx, result)
}

// prepare makes the call of the request.
func (s *single) prepare(ctx context.Context) {
	l, b := s.limiter, &s.batch
	s.ended.Store(false)
	b.Full, b.receipts = l.Engine.denials != nil, s.request.Receipt
	b.sent.version = l.Engine.denials.version(l)
	l.prepare(b)
	s.call.Script, s.call.Keys = l.Protocol.Call(b)
	s.call.Args, s.call.Context = b.Args, ctx
}

// release records that the call has ended.
func (s *single) release() {
	s.busy.Add(-1)
	s.limiter.Engine.calling.Add(-1)
}

// replied is called when the call has its reply. The caller reads it. If it has left, the permits are
// released.
func (s *single) replied() {
	s.release()
	if s.ended.CompareAndSwap(false, true) {
		s.done <- struct{}{}
		return
	}
	s.request.state = abandoned
	err := s.call.Err
	if err == nil {
		var again bool
		if again, err = s.limiter.read(&s.batch, s.call.Reply); again {
			err = context.Canceled // nothing was granted
		}
	}
	s.complete(err)
	s.limiter.releaseLost(context.Background(), &s.batch)
}

// answer reads the reply. After that, the call is reused.
func (s *single) answer(ctx context.Context, result *Result) (done bool, err error) {
	l, b, r := s.limiter, &s.batch, &s.request
	again := false
	if err = s.call.Err; err == nil {
		again, err = l.read(b, s.call.Reply)
	} else if again = redisx.Repeats(err); !again {
		failed := err // a closure that holds err would allocate it for each call
		_, err = Detach(ctx, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, l.Protocol.Explain(ctx, failed)
		})
	}
	if !again {
		s.complete(err)
		r.call.report(ctx, l)
		*result, err = r.Result, r.Err
	}
	b.sent.call = nil
	b.clearReply()
	*r = Request{}
	s.call.Reply, s.call.Context = rueidis.RedisMessage{}, nil
	s.limiter = nil
	l.Engine.singles.Put(s)
	return !again, err
}

// complete makes the answer final.
func (s *single) complete(err error) {
	l, b := s.limiter, &s.batch
	b.sent.call.finish(0, err)
	if s.request.deliver(err) {
		b.Lost = append(b.Lost, &s.request)
	}
	b.count(err)
	l.addReceipts(b)
	b.assignCall()
	l.updateDenials(b)
	b.takeCall().reportAlone() // if no caller does
}

// busy counts the calls of singles, and the entries, by a hash of their IDs.
type busy struct {
	seed   maphash.Seed
	counts [4096]atomic.Int32
}

// of returns the counter of an ID. Few others have the same.
func (b *busy) of(id string) *atomic.Int32 {
	return &b.counts[maphash.String(b.seed, id)%uint64(len(b.counts))]
}
