package rratelimiter

import (
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Answer parses the reply of the acquire script. If that is the last one, a count of drift may follow.
func (p *protocol) Answer(b *engine.Batch, message rueidis.RedisMessage) (again bool, err error) {
	if again, err = p.read(b, message); err == nil && !again {
		p.recountIfDue(b.Args[timeArg])
	}
	return again, err
}

func (p *protocol) read(b *engine.Batch, message rueidis.RedisMessage) (again bool, err error) {
	if message.IsInt64() {
		left, err := message.AsInt64()
		if err == nil && left >= 0 {
			b.GrantAll(left)
		}
		return false, err
	}
	r := redisx.ReadReply(message)
	code, err := p.code(&r)
	switch {
	case errors.Is(err, ErrNotInitialized) && b.Initialize(p.initial):
		return true, nil
	case err != nil:
		return false, err
	case code == replyNeedsKeys:
		p.hint().rate.setPerClient()
		b.Script, b.Keys = acquireScript, p.keys[:]
		return true, nil
	case code == replyAgain:
		b.Args = withCursor(b.Args, r.Text())
		return true, nil
	case code == replyPrefetched && b.Prefetch.Span > 0:
		return p.prefetched(b, r)
	case code == replyPrefetched:
		return false, p.unexpected(&r)
	}
	return false, p.answer(b, code == replyDoneOwn, r)
}

// prefetched reads the reply to a call with a prefetch. Its last element is the reply of acquire.
func (p *protocol) prefetched(b *engine.Batch, r redisx.Reply) (again bool, err error) {
	total, _ := b.Wants()
	granted, lasts, limit, reset, free := r.Number(), millis(r.Number()), r.Number(), millis(r.Number()), r.Number()
	at, rest := r.Number(), r.Next()
	if !r.Ended() {
		return false, p.unexpected(&r)
	}
	f := &b.Prefetch
	f.Granted, f.Lasts, f.Limit, f.Free, f.Reset = granted, lasts, limit, free, lasts+reset
	f.Refund = p.receipt(grantOf(b.Args[memberArg]), granted+total, strconv.FormatInt(at, 10))
	return p.read(b, rest)
}

// answer sets the answers of a batch from a reply with a letter for each request.
func (p *protocol) answer(b *engine.Batch, perClient bool, reply redisx.Reply) error {
	free, rate, interval, reset := reply.Number(), reply.Number(), reply.Number(), reply.Number()
	now := time.UnixMilli(reply.Number())
	letters := reply.Text()
	counted, expires := reply.Number(), millis(reply.Number())
	o := &forecast{now: now.UnixMilli(), free: free, rate: rate, interval: millis(interval), reset: millis(reset),
		expires: expires}
	if pairs := reply.Len() / 2; pairs > 0 {
		o.returns = make([]permitsReturn, 0, pairs)
	}
	for reply.OK() && reply.Len() > 1 {
		o.add(reply.Number(), reply.Number())
	}
	if reply.OK() && reply.Len() == 1 { // of the script for callers that wait
		r := redisx.ReadReply(reply.Next())
		o.shares, b.Rivals.Others, o.held = true, r.Number() > 0, micros(r.Number())
		b.Rivals.Slow, o.rank, b.Rivals.Moved = micros(r.Number()), micros(r.Number()), micros(r.Number())
		if o.turn, o.ahead, o.all = millis(r.Number()), millis(r.Number()), r.Number(); !r.Ended() {
			reply.Fail()
		}
	}
	if !reply.Ended() || !b.AnswerBy(o, letters, p.AboveLimit) {
		return p.unexpected(&reply)
	}
	p.learn(b.Args[timeArg], rate, interval, perClient, counted == 1)
	p.takeTurns(b, o)
	if o.held > 0 {
		b.Denied = 0 // a denial of a waiter is none of other callers, who get what is held
	}
	return nil
}

// takeTurns sets the lag of waiters in the forecast of a batch.
func (p *protocol) takeTurns(b *engine.Batch, f *forecast) {
	if !b.Ordered {
		return
	}
	var granted int64
	for _, r := range b.Requests {
		granted += r.Granted
	}
	after, _ := f.after(max(b.Denied, 1))
	f.lag, b.Turn = p.hint().turns.lag(f, granted, after, p.client.waitJitter)
	b.Rivals.Others = b.Rivals.Others || f.beside
}

// code reads the code of a reply, and returns the error of a script that stopped.
func (p *protocol) code(r *redisx.Reply) (int64, error) {
	switch code := r.Number(); {
	case !r.OK():
	case code == replyNoRate:
		return 0, p.notInitialized()
	case code == replyCorrupt:
		key, field, value := r.Number(), r.Text(), r.Text()
		if r.Ended() && key >= 1 && key <= int64(len(p.keys)) {
			return 0, &StateError{Key: p.keys[key-1], Field: field, Value: value}
		}
	case code == replyAgain && r.Len() != 1, code < replyDone, code > replyNeedsKeys:
	default:
		return code, nil
	}
	return 0, p.unexpected(r)
}

// micros returns n microseconds as a Duration. The script for callers that wait bounds them.
func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// millis returns n milliseconds as a Duration, at most the longest one.
func millis(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(max(n, -most), most)) * time.Millisecond
}
