package engine

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
)

// errBroken is the error of callers whose call did not return: a callback of the program, or the Redis client, panicked or
// ended its goroutine.
var errBroken = errors.New("rratelimiter: the call that carried this request panicked, or ended its goroutine")

// orElse runs a function, and another one if that panics or ends its goroutine. The panic goes on.
func orElse(run, broken func()) {
	returned := false
	defer func() {
		if !returned {
			broken()
		}
	}()
	run()
	returned = true
}

// acquire asks for the permits of a batch and answers its requests.
func (l *Limiter) acquire(ctx context.Context, b *Batch) error {
	if !b.wanted() {
		return nil
	}
	b.forget()
	ctx = b.context(ctx)
	for attempt := 0; ; attempt++ {
		l.prepare(b)
		err := l.converse(ctx, b)
		if err == nil || !slotMoves(ctx, err, attempt) {
			return err
		}
	}
}

// prepare makes a batch ready to be sent.
func (l *Limiter) prepare(b *Batch) {
	b.sent = time.Now()
	b.asked = b.sent
	now := l.Engine.Now()
	b.dated = time.UnixMilli(now.UnixMilli())
	l.Protocol.Arguments(b, now)
	l.Engine.observer.sends(l, b)
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

// giveBack takes back what came for callers that had gone. Nobody waits for it.
func (l *Limiter) giveBack(ctx context.Context, b *Batch) {
	if len(b.Lost) == 0 {
		return
	}
	if work := l.Protocol.GiveBack(b); work != nil {
		go work(Unattended(ctx))
	}
}
