package rratelimiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// mostRequests is how many requests go in one call at most, so that no call keeps the server for long, whoever asks.
const mostRequests = 1024

// request is one caller's wish for permits, and in the end its answer.
type request struct {
	permits int64
	detail  bool // the caller wants all of decision, not Allowed alone

	state    requestState // guarded by the entry, as is batch
	batch    *batch       // that it gathers in; nil for those who wait in line
	decision Decision
	err      error
	panicked any // what a callback of the program's panicked with, in this caller's name
}

type requestState uint8

const (
	queued    requestState = iota // not yet in a call
	inFlight                      // in a call that is under way
	answered                      // decision and err are final
	abandoned                     // the caller has gone: what arrives for it goes back
)

// result gives a request's answer to its caller.
func (r *request) result() (Decision, error) {
	if r.panicked != nil {
		panic(r.panicked)
	}
	return r.decision, r.err
}

// batch is one call of the acquire script: requests in, answers out. While it gathers its entry guards it; from then on
// it is the caller's of acquire, but for the states of its requests.
type batch struct {
	requests []*request
	permits  int64         // of those that gather
	live     int           // that gather and have not been abandoned
	answered chan struct{} // closed once the requests have their answers; nil where nobody listens
	next     *batch        // of those that gather
	prev     *batch

	ordered bool // behind a request that is not granted, none is
	detail  bool // the answers tell all, whoever asks

	rate     int64         // of the limiter, where the reply told, as all that follows
	interval time.Duration // of the limiter
	reset    time.Duration // until every permit is free again
	denied   int64         // the fewest permits that were denied, 0 for none
	free     int64         // permits left after the call, below 0 where more are taken than the rate
	returns  []returning   // when permits come back, the earliest first: as many as the script says, or a page

	sent  time.Time // the moment that the call began
	asked time.Time // the moment that returns count from
	now   int64     // that moment as the script's clock has it, Unix milliseconds, where the reply told

	args []string
	text []byte
}

// returning says that permits come back at a moment.
type returning struct {
	after   time.Duration
	permits int64
}

// clear makes a batch as good as new.
func (b *batch) clear() {
	clear(b.requests)
	b.requests, b.permits, b.live, b.answered = b.requests[:0], 0, 0, nil
	b.forget()
}

// forget drops what a call said.
func (b *batch) forget() {
	b.rate, b.interval, b.reset, b.denied, b.free, b.returns = 0, 0, 0, 0, 0, b.returns[:0]
}

// errUnsent says that a batch was not sent, since the clock panicked for each of its requests.
var errUnsent = errors.New("rratelimiter: no request is left to send")

// acquire asks for the permits of a batch and answers its requests.
//
// A clock that panics does so in the name of the first request, whose caller gets the panic; the others are asked for
// all the same. Any other panic is the first caller's too, and an error for the others, since the call may have been
// carried out.
func (l *Limiter) acquire(ctx context.Context, b *batch) (err error) {
	b.forget()
	all := b.requests
	defer func() {
		b.requests = all
		if reason := recover(); reason != nil {
			hurt := slices.IndexFunc(all, func(r *request) bool { return r.panicked == nil })
			all[max(hurt, 0)].panicked = reason
			err = fmt.Errorf("rratelimiter: limiter %q: the call that carried this request panicked: %v", l.name, reason)
		}
	}()
	for attempt := 0; ; attempt++ {
		b.sent = time.Now()
		b.asked = b.sent
		if !b.prepare(l.client) {
			return errUnsent
		}
		err := l.converse(ctx, b)
		if err == nil || !slotMoves(err, attempt) {
			return err
		}
	}
}

// converse sends a batch's call until the script has done all of its work, and reads the answer.
func (l *Limiter) converse(ctx context.Context, b *batch) error {
	for {
		message, err := l.send(ctx, acquireScript, l.keys[:], b.args)
		if err != nil {
			return err
		}
		if l.client.serverTime {
			// The server read its clock at some moment before this one: none of the returns is earlier than it seems.
			b.asked = time.Now()
		}
		if message.IsInt64() {
			left, err := message.AsInt64()
			if err == nil && left >= 0 {
				b.free = left
				b.grantAll()
			}
			return err
		}
		reply, err := message.ToArray()
		if err != nil {
			return l.unexpected(message)
		}
		cursor, again, err := l.status(reply)
		if err != nil {
			return err
		}
		if !again {
			return l.answer(b, reply)
		}
		b.args = withCursor(b.args, cursor)
	}
}

// tryClock reads the clock, and says with what it panicked, if it did.
func (c *Client) tryClock(text []byte) (now []byte, reason any) {
	if !c.ownClock {
		return c.appendNow(text), nil
	}
	return c.tryOwnClock(text)
}

// tryOwnClock reads the program's clock on a goroutine of its own: it may end that, as a failed assertion of a test does.
func (c *Client) tryOwnClock(text []byte) (now []byte, reason any) {
	reason = "rratelimiter: the clock of WithClock ended its goroutine"
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				reason = r
			}
		}()
		now, reason = c.appendNow(text), nil
	}()
	<-done
	return now, reason
}

// prepare makes the arguments of the acquire script, all in one string, since a call should cost as little as it can.
// Requests in whose name the clock panics leave the batch; it says whether any is left.
func (b *batch) prepare(c *Client) bool {
	text, reason := c.tryClock(b.text[:0])
	for reason != nil {
		b.requests[0].panicked = reason
		if b.requests = b.requests[1:]; len(b.requests) == 0 {
			return false
		}
		text, reason = c.tryClock(b.text[:0])
	}
	var total int64
	detail := b.detail
	for _, r := range b.requests {
		total += r.permits
		detail = detail || r.detail
	}
	nowEnd := len(text)
	text = strconv.AppendInt(text, total, 10)
	totalEnd := len(text)
	text = appendMember(text, total)
	memberEnd := len(text)
	if len(b.requests) > 1 || b.ordered || detail {
		text = appendRuns(text, b.requests)
	}
	runsEnd := len(text)
	switch {
	case b.ordered:
		text = append(text, "ow"...)
	case b.detail:
		text = append(text, "dwa"...)
	case detail:
		text = append(text, "dw"...)
	}
	b.text = text
	all := string(text)
	b.args = append(b.args[:0], all[:nowEnd], all[nowEnd:totalEnd], all[totalEnd:memberEnd])
	if memberEnd < len(all) {
		b.args = append(b.args, all[memberEnd:runsEnd], all[runsEnd:])
	}
	return true
}

// appendMember appends the member of a grant of n permits: a length, as many random bytes, and the low 32 bits
// of n, little-endian.
func appendMember(text []byte, n int64) []byte {
	const random = 16
	text = append(text, random)
	for range random / 8 {
		bits := rand.Uint64()
		for range 8 {
			text = append(text, byte(bits))
			bits >>= 8
		}
	}
	return appendUint32(text, n)
}

func appendUint32(text []byte, n int64) []byte {
	return append(text, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
}

// appendRuns appends the permits of each request, with equal neighbours told once: "1*200 3*1".
func appendRuns(text []byte, requests []*request) []byte {
	for i := 0; i < len(requests); {
		run := i + 1
		for run < len(requests) && requests[run].permits == requests[i].permits {
			run++
		}
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendInt(text, requests[i].permits, 10)
		text = append(text, '*')
		text = strconv.AppendInt(text, int64(run-i), 10)
		i = run
	}
	return text
}

// deliver makes a request's answer final, err being that of its call. It says how many permits came for a caller that
// has gone. The entry is locked.
func (r *request) deliver(err error) (lost int64) {
	if r.state == abandoned {
		if err == nil && r.decision.Allowed {
			lost = r.permits
		}
		return lost
	}
	if err != nil {
		r.err = err
	}
	r.state = answered
	return 0
}

// granted counts the permits of a batch's grant where some of them were lost, before its callers are woken.
func (b *batch) granted(lost int64) (permits int64) {
	if lost == 0 {
		return 0
	}
	for _, r := range b.requests {
		if r.decision.Allowed {
			permits += r.permits
		}
	}
	return permits
}
