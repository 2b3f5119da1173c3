package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// fake is the limiter of these tests, and its own Protocol. Each permit returns an interval after its
// grant. No script runs: fixture.answer decides each call.
type fake struct {
	Limiter
	limit int64
	every time.Duration

	lag, renew time.Duration // of its forecasts
}

// open makes a fake. The limit and the interval of the first call of a name stay, until
// fixture.change.
func open(g *Engine, name string, limit int64, every time.Duration) *fake {
	l := &fake{limit: limit, every: every}
	l.Engine, l.ID, l.Name, l.DependsOn, l.Protocol = g, name, name, []string{name}, l
	l.Leases = g.lease > 0
	return l
}

var (
	fakeScript = redisx.NewScript("")
	grantIDs   atomic.Int64
)

// The arguments of a call that takes permits.
const (
	operationArg = iota
	nowArg
	limitArg
	everyArg
	orderedArg
	requestsArg
	leaseArg
	spanArg
	idArg
)

func (l *fake) Call(*Batch) (*redisx.Script, []string) { return fakeScript, []string{l.ID} }

func (l *fake) Arguments(b *Batch, now time.Time) {
	text := func(n int64) string { return strconv.FormatInt(n, 10) }
	b.Args = append(b.Args[:0], "take", l.Engine.Millis(now), text(l.limit), text(l.every.Milliseconds()),
		strconv.FormatBool(b.Ordered), Runs(b.Requests), text(b.Lease.Permits), text(b.Lease.Span.Milliseconds()),
		text(grantIDs.Add(1)))
}

// reply is the reply of the server.
type reply struct {
	Limit, Free, Reset int64
	Letters            string
	Part               int64      // granted to the request with p
	Returns            [][2]int64 // permits, and after how many milliseconds they return
	Leased             int64
}

func (l *fake) Answer(b *Batch, message rueidis.RedisMessage) (again bool, err error) {
	var r reply
	if err := message.DecodeJSON(&r); err != nil {
		return false, err
	}
	if !b.AnsweredBy(r.Letters, r.Part) {
		return false, fmt.Errorf("%q for %d requests", r.Letters, len(b.Requests))
	}
	v := &view{
		limit: r.Limit, free: r.Free, after: time.Duration(r.Reset) * time.Millisecond, every: l.every,
		returns: r.Returns, lag: l.lag, renew: l.renew,
	}
	b.Forecast = v
	left := v.free
	for i := len(b.Requests) - 1; i >= 0; i-- {
		request := b.Requests[i]
		request.Answer = Answer{Allowed: true, Limit: v.limit, Remaining: left, ResetAfter: v.after}
		switch r.Letters[i] {
		case 'g':
			request.Granted = request.Most()
		case 'p':
			request.Granted = r.Part
		case 'x':
			request.Answer, request.Err = Answer{}, l.AboveLimit(request.Permits, v.limit)
		default:
			request.Answer, _ = v.Denied(request.Permits)
			b.Denied = min(request.Permits, cmp.Or(b.Denied, request.Permits))
		}
		left += request.Granted
	}
	if r.Leased > 0 {
		b.Lease.Granted, b.Lease.Lasts = r.Leased, b.Lease.Span
		b.Lease.Limit, b.Lease.Free, b.Lease.Reset, b.Lease.Return = v.limit, v.free, v.after, l.Receipt(b)
	}
	return false, nil
}

func (l *fake) Receipt(b *Batch) receipt.Refund {
	id := b.Args[idArg]
	return func(ctx context.Context, permits int64) error {
		_, err := Refund(ctx, l.Engine, l.DependsOn, l.back(permits, id))
		return err
	}
}

func (l *fake) Refund(b *Batch) func(context.Context) {
	refund, permits := l.Receipt(b), b.LostPermits
	return func(ctx context.Context) { _ = refund(ctx, permits) }
}

// back returns permits of a grant, or of the oldest ones.
func (l *fake) back(permits int64, id string) func(context.Context) (rueidis.RedisMessage, error) {
	return func(ctx context.Context) (rueidis.RedisMessage, error) {
		args := []string{"back", l.Engine.Millis(l.Engine.Now()), strconv.FormatInt(permits, 10), id}
		message, err := l.Engine.Eval(ctx, nil, fakeScript, []string{l.ID}, args, nil)
		if err != nil {
			err = l.Explain(ctx, err)
		}
		return message, err
	}
}

func (l *fake) Explain(_ context.Context, err error) error { return fmt.Errorf("%s: %w", l.Name, err) }

// aboveLimit is the error of a request for more permits than the limit.
type aboveLimit struct{ permits, limit int64 }

func (e aboveLimit) Error() string { return fmt.Sprintf("%d permits of %d", e.permits, e.limit) }

func (l *fake) AboveLimit(permits, limit int64) error { return aboveLimit{permits, limit} }

// state is what the server knows of a fake, in milliseconds.
type state struct {
	limit, every int64
	grants       []grant
	deleted      bool
}

type grant struct {
	id          string
	at, permits int64
}

// free removes the grants that have expired, and returns the permits that are free.
func (s *state) free(now int64) int64 {
	free, kept := s.limit, s.grants[:0]
	for _, g := range s.grants {
		if g.at+s.every > now {
			kept = append(kept, g)
			free -= g.permits
		}
	}
	s.grants = kept
	return free
}

// answer is the server: it replies to a call.
func (f *fixture) answer(p *server.Peer, command string, words ...string) bool {
	if !strings.EqualFold(command, "EVALSHA") {
		return false
	}
	f.Scripts.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure != "" {
		p.WriteError(f.failure)
		return true
	}
	keys, args := redistest.ScriptCall(command, words)
	number := func(i int) int64 { n, _ := strconv.ParseInt(args[i], 10, 64); return n }
	s := f.limiters[keys[0]]
	if s == nil && args[operationArg] != "back" {
		s = &state{limit: number(limitArg), every: number(everyArg)}
		f.limiters[keys[0]] = s
	}
	if s == nil || s.deleted {
		p.WriteError("NOTSET the limiter has no rate")
		return true
	}
	now := time.Now().UnixMilli()
	if args[nowArg] != "" {
		now = number(nowArg)
	}
	r := reply{Limit: s.limit}
	switch args[operationArg] {
	case "back":
		s.back(number(nowArg+1), args[nowArg+2])
	case "take":
		r.Letters, r.Part, r.Leased = s.take(now, args[requestsArg], args[orderedArg] == "true", number(leaseArg),
			number(spanArg), args[idArg])
	}
	r.Free = s.free(now)
	for _, g := range s.grants {
		r.Returns = append(r.Returns, [2]int64{g.permits, g.at + s.every - now})
		r.Reset = max(r.Reset, g.at+s.every-now)
	}
	text, _ := json.Marshal(r)
	p.WriteBulk(string(text))
	return true
}

// take grants requests in order. If none is denied, it leases at most half of the permits that are free
// then.
func (s *state) take(now int64, runs string, ordered bool, lease, span int64, id string) (letters string, part,
	leased int64) {
	free, stopped := s.free(now), false
	taken := int64(0)
	for _, run := range strings.Fields(runs) {
		text, times, _ := strings.Cut(run, "*")
		upTo := strings.HasPrefix(text, "~")
		most, _ := strconv.ParseInt(strings.TrimPrefix(text, "~"), 10, 64)
		n, _ := strconv.Atoi(times)
		least := most
		if upTo {
			least = 1
		}
		for range n {
			switch granted := min(most, free); {
			case least > s.limit:
				letters += "x"
			case stopped || least > free:
				letters, stopped = letters+"n", ordered
			case granted < most:
				letters, part, free, taken = letters+"p", granted, 0, taken+granted
			default:
				letters, free, taken = letters+"g", free-most, taken+most
			}
		}
	}
	if leased = min(lease, free/2); strings.Contains(letters, "n") {
		leased = 0
	}
	if leased > 0 {
		now += span
	}
	if taken+leased > 0 {
		s.grants = append(s.grants, grant{id, now, taken + leased})
	}
	return letters, part, leased
}

// back returns permits of the grant with an ID, or of the oldest ones without.
func (s *state) back(permits int64, id string) {
	for i := range s.grants {
		if g := &s.grants[i]; id == "" || g.id == id {
			n := min(permits, g.permits)
			g.permits -= n
			permits -= n
		}
	}
}
