package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// run makes the call of a batch. While the slot of its keys moves, it begins again. Then it ends the call, also if a
// callback of the program panics or ends the goroutine. It makes the answers final, with the entry locked if the batch
// has one. Then end does what its kind of call needs: it unlocks the entry and wakes the callers. The requests belong
// to them from then on.
func (l *Limiter) run(ctx context.Context, e *entry, b *Batch, end func()) {
	clear(b.Lost)
	b.BatchResult, b.err = BatchResult{Lost: b.Lost[:0]}, redisx.ErrNoReply // unless all attempts return
	b.Before, b.initialized = nil, 0
	defer func() {
		if errors.Is(b.err, redisx.ErrNoReply) {
			b.err = l.Protocol.Explain(ctx, b.err)
		}
		if e != nil {
			e.mu.Lock()
		}
		l.finishRequests(b)
		if e != nil && e.prefetches != nil {
			e.prefetches.store(b)
		}
		if l.Engine.hooked {
			l.remember(b)
		}
		if len(b.Lost) > 0 {
			l.refundLost(ctx, b)
		}
		end()
	}()
	err := l.attempt(ctx, b)
	for attempt := 1; err != nil && redisx.Again(ctx, err, attempt); attempt++ {
		err = l.attempt(ctx, b)
	}
	b.err = err
}

// slowCall is how long a call takes that is slow.
const slowCall = time.Millisecond

// attempt dates a batch, and calls its script until that has done all of its work.
func (l *Limiter) attempt(ctx context.Context, b *Batch) error {
	if len(b.Requests) == 0 && b.Prefetch.Span == 0 {
		return nil // there is nothing to ask for
	}
	g := l.Engine
	now := time.Now()
	b.Sent, b.begins, b.AllDetail = now, now, g.denials != nil
	if g.ownClock || g.ServerTime {
		now = g.Now()
	}
	l.Protocol.Prepare(b, now)
	if g.hooked {
		b.dated, b.version = now.Truncate(l.Tick), g.changes.versionOf(l.DependsOn)
		l.beginCallInfo(b)
	}
	for calls := 1; ; calls++ {
		b.Unknown = true // until there is an answer: the Redis client or a clock may panic
		message, err := b.Exec(ctx, g.redis, b.Before)
		sentBefore := len(b.Before) > 0
		b.Before = nil
		b.Replied = time.Now()
		if slow := b.Replied.Sub(b.Sent) >= slowCall; slow != g.slow.Load() {
			g.slow.Store(slow)
		}
		b.Unknown = err == nil || sentBefore || redisx.ReplyLost(err) // the error may be that of a call before
		if err != nil && b.Claim.ID != "" && redisx.Refused(err) {
			g.unclaimed.Store(true)
			time.AfterFunc(unclaimedFor, func() { g.unclaimed.Store(false) })
			b.Claim = Claim{}
			l.Protocol.Prepare(b, now)
			continue
		}
		if err != nil {
			return l.Protocol.Explain(ctx, err)
		}
		if g.ServerTime {
			// The server read its clock before now, so permits are free by the time of the forecast, or
			// earlier.
			b.begins = b.Replied
		}
		b.Reply = message
		again, err := l.Protocol.Answer(b, message)
		b.Unknown = false
		if b.Rivals.Moved > 0 { // the way to Redis is part of it
			b.begins = b.Sent.Add(min(b.Rivals.Moved, time.Since(b.Sent)/2))
		}
		if err != nil || !again {
			return err
		}
		if err := mayRepeat(ctx, calls); err != nil {
			return l.Protocol.Explain(ctx, err)
		}
	}
}

// unclaimedFor is how long calls have no Claim, after Redis has refused one by the rights of its user.
const unclaimedFor = time.Minute

// Run is one run of a script. It needs several calls if there is more to do than one may, or if its keys are not those
// of the limiter in Redis.
type Run struct {
	redisx.Call               // the next one
	Before      []redisx.Call // made before it, in one round trip

	initialized int // how often Before was set
}

// maxInitial is how often a run sets initial rates, if another client deletes them each time.
const maxInitial = 3

// Initialize has the script called again behind the calls that set initial rates, if there are any, at most
// maxInitial times.
func (r *Run) Initialize(initial []redisx.Call) (again bool) {
	if len(initial) == 0 || r.initialized == maxInitial {
		return false
	}
	r.Before = initial
	r.initialized++
	return true
}

// maxPages is the largest number of calls for one run of a script: enough for 16 million grants.
const maxPages = 1 << 16

// mayRepeat returns an error if a script must not get another call: its caller has left, or it has had
// maxPages calls.
func mayRepeat(ctx context.Context, calls int) error {
	if calls >= maxPages {
		return fmt.Errorf("the script has not finished after %d calls", calls)
	}
	return ctx.Err()
}

// refundLost refunds the permits of callers that have left.
func (l *Limiter) refundLost(ctx context.Context, b *Batch) {
	if refund := l.Protocol.Receipt(b); refund != nil {
		refundable, permits := Unattended(ctx), b.LostPermits // others use the batch again
		go func() { _ = refund(refundable, permits) }()       // if it fails, they stay taken until they expire
	}
}

// finishRequests makes the answers of a batch final: its permits are counted, and its granted requests have their
// receipts. A waiter that was denied keeps its place. What a request holds whose caller has left is returned, and so
// is what it may hold if that is unknown. The entry of the batch, if it has one, is locked.
func (l *Limiter) finishRequests(b *Batch) {
	err := b.err
	for i, r := range b.Requests {
		if err == nil && r.Allowed {
			b.Granted += r.Granted
		} else if err == nil && r.Err == nil && b.Ordered && r.state.CompareAndSwap(inFlight, queued) {
			continue
		}
		if r.finish(err) {
			b.Lost = append(b.Lost, r)
			b.LostPermits += r.Granted
			l.Protocol.Hold(b, i, r.Granted).Return()
		} else if err != nil && b.Unknown {
			l.Protocol.Hold(b, i, r.Most()).ReturnUnknown()
		}
	}
	if b.callInfo != nil {
		b.finishCallInfo()
	}
	if b.Granted == 0 {
		return
	}
	refund := b.Prefetch.Refund // of the same grant, if the call has brought a prefetch
	for i, r := range b.Requests {
		if r.Receipt && r.Allowed && r.state.Load() == answered {
			if refund == nil {
				refund = l.Protocol.Receipt(b)
			}
			r.Refund, r.Hold = refund, l.Protocol.Hold(b, i, r.Granted)
		}
	}
}

// beginCallInfo records the beginning of a call for the Observer. A batch is sent again while its slot moves.
func (l *Limiter) beginCallInfo(b *Batch) {
	if o := l.Engine.observer; o == nil || o.RedisCall == nil {
		return
	}
	if b.callInfo == nil {
		b.callInfo = &RedisCallInfo{Limiter: l, began: b.Sent}
	}
	permits, _ := b.Wants()
	b.callInfo.Requests, b.callInfo.Permits = len(b.Requests), permits
}

// finishCallInfo sets the result of a batch's call. The first caller that has not left is to report it. The answers are
// final and the entry, if there is one, is locked.
func (b *Batch) finishCallInfo() {
	b.callInfo.Initial = b.initialized > 0
	b.callInfo.finish(b.Prefetch.Granted, b.err)
	for _, r := range b.Requests {
		if r.state.Load() == answered {
			r.callInfo = b.takeCallInfo()
			return
		}
	}
}

// takeCallInfo returns the call of a batch that is still to be reported, if any.
func (b *Batch) takeCallInfo() (c *RedisCallInfo) {
	c, b.callInfo = b.callInfo, nil
	return c
}

// takeResult takes the result out of a request, whose caller it is, and clears the request for the next one.
func (l *Limiter) takeResult(ctx context.Context, r *Request, result *Result) error {
	err := r.Err
	*result = r.Result // before a hook, which may panic
	if r.callInfo != nil {
		r.callInfo.report(ctx, l)
	}
	r.Ask, r.Result, r.Err, r.batch, r.callInfo = Ask{}, Result{}, nil, nil, nil
	return err
}

// context returns the context of the batch's call, with the values of ctx. It ends with the last
// caller; a prefetch that the call may bring keeps it for as long as that could be used.
//
// It is made for one call and never reused: a hook of rueidis may keep it.
func (b *Batch) context(ctx context.Context) context.Context {
	var prefetchEnd time.Time
	if b.Prefetch.Span > 0 {
		prefetchEnd = time.Now().Add(b.Prefetch.Span)
	}
	return &batchContext{callContext{Context: ctx}, b, prefetchEnd}
}

// batchContext is the context of a batch's call.
type batchContext struct {
	callContext
	batch       *Batch
	prefetchEnd time.Time // zero without a prefetch
}

func (c *batchContext) Err() error {
	if c.batch.callers.Load() > 0 || time.Now().Before(c.prefetchEnd) {
		return nil
	}
	return context.Canceled
}

// Eval runs a script that does not take permits for requests, and returns the last reply. again, if not nil, reads each
// reply, and sets the next call if the script needs one. While the slot of the keys moves, Eval repeats a call; renew,
// if not nil, sets its arguments then. Callers run Eval under Detach, which ends with their context. A call of
// redisx.Once that has run before is redisx.ErrRanBefore.
func (g *Engine) Eval(ctx context.Context, p Protocol, run *Run, renew func(args []string),
	again func(rueidis.RedisMessage) (bool, error)) (rueidis.RedisMessage, error) {
	for calls := 1; ; calls++ {
		message, err := g.call(ctx, run, renew)
		if err != nil {
			return message, p.Explain(ctx, err)
		}
		if again == nil {
			return message, nil
		}
		if more, err := again(message); err != nil || !more {
			return message, err
		}
		if err := mayRepeat(ctx, calls); err != nil {
			return message, p.Explain(ctx, err)
		}
	}
}

// call makes the next call of a run.
func (g *Engine) call(ctx context.Context, run *Run, renew func(args []string)) (
	message rueidis.RedisMessage, err error) {
	call := run.ForOnce(ctx)
	for attempt := 0; attempt == 0 || redisx.Again(ctx, err, attempt); attempt++ {
		if attempt > 0 && renew != nil {
			renew(call.Args)
		}
		if message, err = call.Exec(ctx, g.redis, run.Before); err == nil {
			err = redisx.RanBefore(message)
		}
	}
	run.Before = nil
	return message, err
}

// callContext is the context of a call to Redis. Its Done is nil: when a context ends, rueidis
// closes the connection, which other callers use too. Its Err reports that the call must not be sent again: then
// neither this package nor rueidis, which follows redirections of a cluster, sends the call again.
//
// Contexts of calls are pointers: a hook of rueidis may have them as keys of a map.
type callContext struct {
	context.Context // only for its values
	err             func() error
}

func (*callContext) Deadline() (deadline time.Time, ok bool) { return deadline, false }
func (*callContext) Done() <-chan struct{}                   { return nil }
func (c *callContext) Err() error                            { return c.err() }

// unattendedFor is how long a call is repeated that does not end with a caller.
const unattendedFor = time.Minute

// Unattended returns the context of a call that does not end with a caller. While the slot of its
// keys moves, it is repeated for a minute.
func Unattended(ctx context.Context) context.Context {
	begin := time.Now()
	return &callContext{redisx.RetryUntilEnd(ctx), func() error {
		if time.Since(begin) < unattendedFor {
			return nil
		}
		return context.DeadlineExceeded
	}}
}

// Detach runs a call and returns its result, or the error of ctx as soon as ctx ends. A command
// that was sent by then is completed, and no other is sent: see callContext.
func Detach[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if ctx.Done() == nil {
		return call(ctx)
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		r := result{err: redisx.ErrNoReply} // until it returns
		defer func() { done <- r }()
		r.value, r.err = call(&callContext{ctx, ctx.Err})
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
