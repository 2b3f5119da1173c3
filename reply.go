package rratelimiter

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// allGranted replaces the letters of a batch if all its requests were granted.
const allGranted = "*"

// Answer parses the reply of the acquire script.
func (w *wire) Answer(b *engine.Batch, message rueidis.RedisMessage) (again bool, err error) {
	if message.IsInt64() {
		left, err := message.AsInt64()
		if err == nil && left >= 0 {
			b.GrantAll(left, engine.Answer{})
		}
		return false, err
	}
	reply, err := message.ToArray()
	if err != nil {
		return false, w.unexpected(message)
	}
	if b.Lease.Span > 0 && w.leased(b, reply) {
		again, err := w.Answer(b, reply[len(reply)-1])
		for _, r := range b.Requests {
			r.Remaining += b.Lease.Granted // no caller has them yet
		}
		return again, err
	}
	if needsKeys(reply) {
		w.hint().setPerClient()
		b.AllKeys = true // whatever an earlier reply sets meanwhile
		return true, nil
	}
	cursor, again, err := w.status(reply)
	switch {
	case err != nil:
		return false, err
	case again:
		b.Args = withCursor(b.Args, cursor)
		return true, nil
	}
	return false, w.answer(b, reply)
}

// needsKeys reports whether the script asks for the keys of a PerClient limiter.
func needsKeys(reply []rueidis.RedisMessage) bool {
	if len(reply) != 1 {
		return false
	}
	kind, err := reply[0].AsInt64()
	return err == nil && kind == replyNeedsKeys
}

// leased parses the reply of a call with a lease, and reports whether it is one. Its last element
// is the reply of acquire.
func (w *wire) leased(b *engine.Batch, reply []rueidis.RedisMessage) bool {
	const elements = 7
	var numbers [elements - 1]int64
	if len(reply) != elements {
		return false
	}
	for i := range numbers {
		number, err := reply[i].AsInt64()
		if err != nil {
			return false
		}
		numbers[i] = number
	}
	if numbers[0] != replyLeased {
		return false
	}
	total, _ := b.Wants()
	lasts, granted := millis(numbers[2]), numbers[1]+total
	random := randomOf(b)
	b.Lease.Granted, b.Lease.Lasts, b.Lease.Limit, b.Lease.Free = numbers[1], lasts, numbers[3], numbers[5]
	b.Lease.Reset = lasts + millis(numbers[4])
	b.Lease.Return = func(ctx context.Context, permits int64) error { return w.refund(ctx, permits, random, granted) }
	return true
}

// answer sets the answers of a batch from a reply with a letter for each request.
func (w *wire) answer(b *engine.Batch, reply []rueidis.RedisMessage) error {
	const head, letter = 8, 6
	if len(reply) < head || len(reply)%2 != head%2 {
		return w.unexpected(reply[0])
	}
	var numbers [letter]int64
	for i := range numbers {
		number, err := reply[i].AsInt64()
		if err != nil {
			return w.unexpected(reply[i])
		}
		numbers[i] = number
	}
	text, err := reply[letter].ToString()
	letters, part, _ := strings.Cut(text, "=")
	if err != nil || letters != allGranted && len(letters) != len(b.Requests) {
		return w.unexpected(reply[letter])
	}
	counted, err := reply[letter+1].ToString()
	if err != nil {
		return w.unexpected(reply[letter+1])
	}
	o := &forecast{free: numbers[1], rate: numbers[2], interval: millis(numbers[3]), reset: millis(numbers[4])}
	if pairs := (len(reply) - head) / 2; pairs > 0 {
		o.returns = make([]returning, 0, pairs)
	}
	for pair := head; pair < len(reply); pair += 2 {
		after, err := reply[pair].AsInt64()
		if err != nil {
			return w.unexpected(reply[pair])
		}
		permits, err := reply[pair+1].AsInt64()
		if err != nil {
			return w.unexpected(reply[pair+1])
		}
		o.add(after, permits)
	}
	b.Forecast = o
	now := w.millisOf(time.UnixMilli(numbers[5])) // as Arguments took it
	w.hint().learn(now, numbers[2], numbers[3], numbers[0] == replyDoneOwn, counted)
	if letters == allGranted {
		b.GrantAll(o.free, engine.Answer{Limit: o.rate, ResetAfter: o.reset})
		return nil
	}
	left := o.free
	for i := len(b.Requests) - 1; i >= 0; i-- {
		r := b.Requests[i]
		granted := letters[i] == 'g' || letters[i] == 'p'
		r.Answer = engine.Answer{Allowed: granted, Limit: o.rate, Remaining: max(0, left), ResetAfter: o.reset}
		switch letters[i] {
		case 'g':
			r.Grant(r.Most())
			left += r.Permits
		case 'p':
			if r.Permits, err = strconv.ParseInt(part, 10, 64); err != nil {
				return w.unexpected(reply[letter])
			}
			left += r.Permits
		case 'x':
			r.Answer, r.Err = engine.Answer{}, w.AboveLimit(r.Permits, o.rate)
		default:
			// RetryAfter is that of the end of the call, so Remaining is too.
			r.Remaining = max(0, o.free)
			r.RetryAfter, _ = o.after(r.Permits)
			if b.Denied == 0 || r.Permits < b.Denied {
				b.Denied = r.Permits
			}
		}
	}
	return nil
}

// millis returns n milliseconds as a Duration, at most the longest one.
func millis(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(max(n, -most), most)) * time.Millisecond
}
