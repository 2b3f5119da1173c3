package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

const (
	// MostRequests is how many requests go in one call at most, so that no call keeps the server for long, whoever asks.
	MostRequests = 1024
	// MostPermits is how many permits one call asks for at most: a script counts no further.
	MostPermits = 1 << 53
)

// Ask is what a caller wants.
type Ask struct {
	Permits int64
	Detail  bool          // all of Answer, not Allowed alone
	Each    bool          // Result.Parts as well
	Within  time.Duration // for a reservation: the longest delay
}

// Result is what came of it.
type Result struct {
	Answer
	Extra any // for a request with Each the []Answer of its parts, for a reservation what the Protocol makes of it
	From  Source
}

// Parts is what each part says, for a request with Each.
func (r Result) Parts() []Answer {
	parts, _ := r.Extra.([]Answer)
	return parts
}

// Request is one caller's wish for permits, and in the end its answer.
//
// What a call reads and writes is together in one line of the processor's cache, and what its caller alone does in another:
// with thousands of callers most of a decision's time is to get such lines from one processor to the other.
type Request struct {
	Permits int64
	Detail  bool // as in Ask, as is Each
	Each    bool
	state   requestState // guarded by the entry, as is batch
	From    Source
	Answer
	batch *Batch // that it gathers in; nil for those who wait in line

	Within time.Duration // as in Ask
	Extra  any           // as in Result
	Err    error
	call   *Call    // that this caller is to tell of, or nil
	_      [16]byte // two lines, beginning with one
}

// hurt is the error of a request in whose name a callback of the program's panicked.
type hurt struct{ reason any }

func (h *hurt) Error() string {
	return fmt.Sprintf("rratelimiter: a callback of the program panicked: %v", h.reason)
}

// hurt is nil where no callback panicked in this request's name.
func (r *Request) hurt() *hurt {
	if r.Err == nil {
		return nil
	}
	var h *hurt
	errors.As(r.Err, &h)
	return h
}

type requestState uint8

const (
	queued    requestState = iota // not yet in a call
	inFlight                      // in a call that is under way
	answered                      // the result is final
	abandoned                     // the caller has gone: what arrives for it goes back
)

// result gives a request's answer to its caller.
func (r *Request) result() (Result, error) {
	if h := r.hurt(); h != nil {
		panic(h.reason)
	}
	return Result{r.Answer, r.Extra, r.From}, r.Err
}

// Batch is one call: requests in, answers out. While it gathers its entry guards it; from then on it is the caller's of
// acquire, but for the states of its requests.
type Batch struct {
	Requests []*Request
	Ordered  bool // behind a request that is not granted, none is
	Full     bool // the answers tell all, whoever asks

	// What Protocol.Arguments made: Text is for it to use again.
	Args []string
	Text []byte

	// What the reply told.
	Outlook Outlook // nil where it told nothing but answers
	Denied  int64   // the fewest permits that were denied, 0 for none

	Lease Lease // for callers to come

	// What came for callers that had gone, and, where that is anything, how many permits that is, and were granted in all.
	Lost        []*Request
	LostPermits int64
	Granted     int64

	permits  int64         // of those that gather
	live     int           // that gather and have not been abandoned
	answered chan struct{} // closed once the requests have their answers; nil where nobody listens
	next     *Batch        // of those that gather
	prev     *Batch

	spare Outlook   // what Outlook was, for Protocol.Answer to use again
	sent  time.Time // the moment that the call began
	asked time.Time // the moment that Outlook counts from
	call  *Call     // that nobody has told of yet, where that is wanted
}

// Spare is the outlook of an earlier reply, of whatever kind, which may be used again, by the caller alone; or nil.
func (b *Batch) Spare() (spare Outlook) {
	spare, b.spare = b.spare, nil
	return spare
}

// Wants says how many permits the requests are for, and whether anybody wants to know more than whether they were granted.
func (b *Batch) Wants() (permits int64, detail bool) {
	detail = b.Full
	for _, r := range b.Requests {
		permits += r.Permits
		detail = detail || r.Detail
	}
	return permits, detail
}

// GrantAll answers a batch of which every request was granted.
func (b *Batch) GrantAll(left int64, answer Answer) {
	answer.Allowed = true
	for i := len(b.Requests) - 1; i >= 0; i-- {
		r := b.Requests[i]
		r.Answer = answer
		r.Remaining = max(0, left)
		left += r.Permits
	}
}

// clear makes a batch as good as new.
func (b *Batch) clear() {
	clear(b.Requests)
	b.Requests, b.permits, b.live, b.answered, b.Lease = b.Requests[:0], 0, 0, nil, Lease{}
	b.forget()
}

// forget drops what a call said.
func (b *Batch) forget() {
	if b.Outlook != nil {
		b.spare = b.Outlook
	}
	clear(b.Lost)
	b.Outlook, b.Denied, b.Lost, b.LostPermits, b.Granted = nil, 0, b.Lost[:0], 0, 0
}

// errUnsent says that a batch was not sent, since the clock panicked for each of its requests.
var errUnsent = errors.New("rratelimiter: no request is left to send")

// acquire asks for the permits of a batch and answers its requests.
//
// A clock that panics does so in the name of the first request, whose caller gets the panic; the others are asked for
// all the same. Any other panic is the first caller's too, and an error for the others, since the call may have been
// carried out.
func (l *Limiter) acquire(ctx context.Context, b *Batch) (err error) {
	b.forget()
	all := b.Requests
	defer func() {
		b.Requests = all
		if reason := recover(); reason != nil {
			if len(all) > 0 { // else nobody is there for it
				first := slices.IndexFunc(all, func(r *Request) bool { return r.hurt() == nil })
				all[max(first, 0)].Err = &hurt{reason}
			}
			err = fmt.Errorf("rratelimiter: limiter %q: the call that carried this request panicked: %v", l.Name, reason)
		}
		b.call.ends(b.Lease.Granted, err)
	}()
	for attempt := 0; ; attempt++ {
		b.sent = time.Now()
		b.asked = b.sent
		now, ok := l.Engine.date(b)
		if !ok {
			return errUnsent
		}
		l.Protocol.Arguments(b, now)
		l.Engine.observer.sends(l, b)
		err := l.converse(ctx, b)
		if err == nil || !slotMoves(err, attempt) {
			return err
		}
	}
}

// converse sends a batch's call until the script has done all of its work, and reads the answer.
func (l *Limiter) converse(ctx context.Context, b *Batch) error {
	script, keys := l.Protocol.Call(b)
	for {
		message, err := l.Engine.run(ctx, script, keys, b.Args).ToMessage()
		if err != nil {
			return l.Protocol.Explain(ctx, err)
		}
		if l.Engine.now == nil {
			// The server read its clock at some moment before this one: nothing comes back earlier than it seems.
			b.asked = time.Now()
		}
		again, err := l.Protocol.Answer(b, message)
		if err != nil || !again {
			return err
		}
	}
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

// AppendRuns appends the permits of each request, with equal neighbours told once: "1*200 3*1".
func AppendRuns(text []byte, requests []*Request) []byte {
	for i := 0; i < len(requests); {
		run := i + 1
		for run < len(requests) && requests[run].Permits == requests[i].Permits {
			run++
		}
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendInt(text, requests[i].Permits, 10)
		text = append(text, '*')
		text = strconv.AppendInt(text, int64(run-i), 10)
		i = run
	}
	return text
}

// deliver makes a request's answer final, err being that of its call. It says whether permits came for a caller that has
// gone. The entry is locked.
func (r *Request) deliver(err error) (lost bool) {
	if r.state == abandoned {
		return err == nil && r.Allowed
	}
	if err != nil && r.hurt() == nil {
		r.Err = err
	}
	r.state = answered
	return false
}

// count sums up what was granted where something was lost, before the callers are woken.
func (b *Batch) count() {
	if len(b.Lost) == 0 {
		return
	}
	for _, r := range b.Lost {
		b.LostPermits += r.Permits
	}
	for _, r := range b.Requests {
		if r.Allowed {
			b.Granted += r.Permits
		}
	}
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
		work(context.WithoutCancel(ctx))
	}()
}
