package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

// errUnsent says that a batch was not sent, since the clock panicked for each of its requests.
var errUnsent = errors.New("rratelimiter: no request is left to send")

// acquire asks for the permits of a batch and answers its requests.
//
// A clock that panics does so in the name of the first request, whose caller gets the panic; the others are asked for
// all the same. Any other panic is the first caller's too, and an error for the others, since the call may have been
// carried out.
func (l *Limiter) acquire(ctx context.Context, b *Batch) (err error) {
	b.forget()
	ctx = b.context(ctx)
	defer func() { b.call.ends(b.Lease.Granted, err) }()
	defer l.recovers(b, b.Requests, &err)
	for attempt := 0; ; attempt++ {
		if err := l.prepare(b); err != nil {
			return err
		}
		err := l.converse(ctx, b)
		if err == nil || !slotMoves(ctx, err, attempt) {
			return err
		}
	}
}

// recovers makes of a panic of a batch's call what its requests are told, when it is deferred.
func (l *Limiter) recovers(b *Batch, all []*Request, err *error) {
	b.Requests = all
	if reason := recover(); reason != nil {
		*err = l.panicked(b, reason)
	}
}

func (l *Limiter) panicked(b *Batch, reason any) error {
	if all := b.Requests; len(all) > 0 { // else nobody is there for it
		first := slices.IndexFunc(all, func(r *Request) bool { return r.hurt() == nil })
		all[max(first, 0)].Err = &hurt{reason}
	}
	return fmt.Errorf("rratelimiter: limiter %q: the call that carried this request panicked: %v", l.Name, reason)
}

// broken is the error of a batch whose call ended its goroutine.
func (l *Limiter) broken(ctx context.Context, b *Batch) error {
	err := l.Protocol.Explain(ctx, errBroken)
	b.call.ends(0, err)
	return err
}

// prepare makes a batch ready to be sent.
func (l *Limiter) prepare(b *Batch) error {
	b.sent = time.Now()
	b.asked = b.sent
	now, ok := l.Engine.date(b)
	if !ok {
		return errUnsent
	}
	b.dated = time.UnixMilli(now.UnixMilli())
	l.Protocol.Arguments(b, now)
	l.Engine.observer.sends(l, b)
	return nil
}

// converse sends a batch's call until the script has done all of its work, and reads the answer.
func (l *Limiter) converse(ctx context.Context, b *Batch) error {
	for calls := 1; ; calls++ {
		script, keys := l.Protocol.Call(b)
		message, err := l.Engine.run(ctx, script, keys, b.Args)
		if err != nil {
			return l.Protocol.Explain(ctx, err)
		}
		again, err := l.read(b, message)
		if err != nil || !again {
			return err
		}
		if err := Repeat(ctx, calls); err != nil {
			return l.Protocol.Explain(ctx, err)
		}
	}
}

// read reads the reply to a batch's call.
func (l *Limiter) read(b *Batch, message rueidis.RedisMessage) (again bool, err error) {
	if l.Engine.now == nil {
		// The server read its clock at some moment before this one: nothing comes back earlier than it seems.
		b.asked = time.Now()
	}
	b.Reply = message
	return l.Protocol.Answer(b, message)
}

// date says when a batch is sent. Requests in whose name the clock panics leave the batch; it says whether any is left.
func (g *Engine) date(b *Batch) (now time.Time, ok bool) {
	if !g.ownClock {
		return g.Now(), true
	}
	now, reason := g.tryOwnClock()
	for reason != nil {
		if len(b.Requests) == 0 {
			return now, false
		}
		b.Requests[0].Err = &hurt{reason}
		if b.Requests = b.Requests[1:]; len(b.Requests) == 0 {
			return now, false
		}
		now, reason = g.tryOwnClock()
	}
	return now, true
}

// tryOwnClock reads the program's clock, and says with what it panicked, if it did. It does so on a goroutine of its own,
// which the clock may end, as a failed assertion of a test does.
func (g *Engine) tryOwnClock() (now time.Time, reason any) {
	reason = "rratelimiter: the clock of WithClock ended its goroutine"
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				reason = r
			}
		}()
		now, reason = g.now(), nil
	}()
	<-done
	return now, reason
}

// giveBack takes back what came for callers that had gone. Nobody waits for it, and nobody is there for what panics.
func (l *Limiter) giveBack(ctx context.Context, b *Batch) {
	if len(b.Lost) == 0 {
		return
	}
	work := l.Protocol.GiveBack(b)
	if work == nil {
		return
	}
	go func() {
		defer func() { _ = recover() }()
		work(Unattended(ctx))
	}()
}
