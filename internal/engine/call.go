package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// If more limiters than this have calls in flight, calls are sent in pipelines. For fewer a
// pipeline is slower: all callers would wait for it. make bench measures it.
const pipelined = 16

// pipelineOf returns the pipeline for a call with a key, or nil if it is to be sent alone.
func (g *Engine) pipelineOf(key string) *redisx.Pipeline {
	if g.calling.Load() <= pipelined {
		return nil
	}
	return g.pipelines.Of(key)
}

// run runs a script, in a pipeline if many calls are in flight, or after other calls.
func (g *Engine) run(ctx context.Context, before []redisx.Call, script *redisx.Script,
	keys, args []string) (rueidis.RedisMessage, error) {
	if len(before) == 0 {
		if p := g.pipelineOf(keys[0]); p != nil {
			return p.Do(ctx, script, keys, args)
		}
	}
	return script.ExecAfter(ctx, g.redis, before, keys, args)
}

// Eval runs a script after other calls, usually none. While the slot of its keys moves, Eval
// repeats them all; renew, if not nil, sets the arguments of a repeated call. Callers run it under
// Detach, which ends with their context. A call of redisx.Once that has run before is
// redisx.ErrRanBefore.
func (g *Engine) Eval(ctx context.Context, before []redisx.Call, script *redisx.Script, keys, args []string,
	renew func(args []string)) (rueidis.RedisMessage, error) {
	var message rueidis.RedisMessage
	script, keys = script.ForOnce(ctx, keys)
	err := redisx.Retry(ctx, func(attempt int) (err error) {
		if attempt > 0 && renew != nil {
			renew(args)
		}
		if message, err = g.run(ctx, before, script, keys, args); err != nil {
			return err
		}
		return redisx.RanBefore(message)
	})
	return message, err
}

// context returns the context of the batch's call, with the values of ctx. It ends with the last
// caller; a lease that the call may bring keeps it for as long as that could be used.
//
// It is made for one call and never reused: a hook of rueidis may keep it.
func (b *Batch) context(ctx context.Context) context.Context {
	var leaseEnd time.Time
	if b.Lease.Span > 0 {
		leaseEnd = time.Now().Add(b.Lease.Span)
	}
	return &batchContext{callContext{Context: ctx}, b, leaseEnd}
}

// batchContext is the context of a batch's call.
type batchContext struct {
	callContext
	batch    *Batch
	leaseEnd time.Time // zero without a lease
}

// Err implements context.Context.
func (c *batchContext) Err() error {
	if atomic.LoadInt32(&c.batch.sent.callers) > 0 || time.Now().Before(c.leaseEnd) {
		return nil
	}
	return context.Canceled
}

// acquire asks Redis for the permits of a batch and sets the answers of its requests.
func (l *Limiter) acquire(ctx context.Context, b *Batch) error {
	if !b.wanted() {
		return nil
	}
	b.clearReply()
	l.prepare(b)
	return l.resume(ctx, b)
}

// resume continues the call of a batch. While a slot moves, it begins again.
func (l *Limiter) resume(ctx context.Context, b *Batch) error {
	err := redisx.Retry(ctx, func(attempt int) error {
		if attempt > 0 {
			l.prepare(b)
		}
		return l.runScript(ctx, b)
	})
	if g, slow := l.Engine, time.Since(b.sent.at) >= slowCall; slow != g.slow.Load() {
		g.slow.Store(slow)
	}
	return err
}

// prepare sets the arguments of a batch.
func (l *Limiter) prepare(b *Batch) {
	b.sent.at, b.sent.calls = time.Now(), 0
	b.forecastAt = b.sent.at
	now := l.Engine.Now()
	b.sent.dated = now.Truncate(l.tick())
	l.Protocol.Arguments(b, now)
	l.Engine.observer.begin(l, b)
}

// runScript calls the script of a batch until it has done all of its work, and reads the answer.
func (l *Limiter) runScript(ctx context.Context, b *Batch) error {
	for {
		script, keys := l.Protocol.Call(b)
		message, err := l.Engine.run(ctx, b.Before, script, keys, b.Args)
		b.Before = nil
		if err != nil {
			return l.Protocol.Explain(ctx, err)
		}
		again, err := l.read(b, message)
		if err != nil || !again {
			return err
		}
		if err := Repeat(ctx, b.sent.calls); err != nil {
			return l.Protocol.Explain(ctx, err)
		}
	}
}

// read reads the reply to a batch's call. It reports whether the script needs another call.
func (l *Limiter) read(b *Batch, message rueidis.RedisMessage) (again bool, err error) {
	if l.Engine.now == nil {
		// The server read its clock before now, so no permit returns earlier than the forecast
		// says.
		b.forecastAt = time.Now()
	}
	b.Reply = message
	b.sent.calls++
	return l.Protocol.Answer(b, message)
}

// MaxPages is the largest number of calls for one run of a script: enough for 16 million grants.
const MaxPages = 1 << 16

// Repeat returns an error if a script must not get another call: its caller has left, or it has had
// MaxPages calls.
func Repeat(ctx context.Context, calls int) error {
	if calls >= MaxPages {
		return fmt.Errorf("the script has not finished after %d calls", calls)
	}
	return ctx.Err()
}

// addReceipts gives the granted requests of a batch that want a receipt the Refund of the grant, unless
// the Protocol has given them their own. The entry is locked, and the batch is counted.
func (l *Limiter) addReceipts(b *Batch) {
	if !b.receipts {
		return
	}
	refund, giveBack := b.Lease.Return, receipt.Refund(nil) // of the same grant, if the call has brought a lease
	for _, r := range b.Requests {
		if r.Receipt && r.Refund == nil && r.Allowed && r.Err == nil && r.state == answered {
			if refund == nil {
				refund, giveBack = l.Protocol.Receipt(b)
			}
			r.Refund, r.Return = refund, giveBack
		}
	}
}

// releaseLost releases the permits that were granted to callers that have left. No caller waits for
// it.
func (l *Limiter) releaseLost(ctx context.Context, b *Batch) {
	if len(b.Lost) == 0 {
		return
	}
	if work := l.Protocol.Refund(b); work != nil {
		go work(Unattended(ctx))
	}
}

// runOrAbort runs a function, and another one if the first panics or ends its goroutine. The panic
// continues.
func runOrAbort(run, broken func()) {
	returned := false
	defer func() {
		if !returned {
			broken()
		}
	}()
	run()
	returned = true
}
