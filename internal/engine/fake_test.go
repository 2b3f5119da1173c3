package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/hold"
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
	l.CanPrefetch = g.prefetch > 0
	return l
}

// exchange is a call and its reply. Redis carries only its number.
type exchange struct {
	limiter  *fake
	asks     []Ask
	ordered  bool
	prefetch Prefetch
	now      time.Time // zero for the server's clock

	back int64  // permits to return, instead of asks
	of   string // the exchange that was granted them; "" for the oldest grants

	view
	letters          string
	part, prefetched int64 // part was granted to the request with p
}

var (
	exchanges    sync.Map // by number
	lastExchange atomic.Int64
	fakeScript   = redisx.NewScript("")
)

// send returns the number of a new exchange.
func send(x *exchange) string {
	number := strconv.FormatInt(lastExchange.Add(1), 10)
	exchanges.Store(number, x)
	return number
}

func exchangeOf(number string) *exchange {
	x, _ := exchanges.Load(number)
	return x.(*exchange)
}

func (l *fake) Prepare(b *Batch, now time.Time) {
	x := &exchange{limiter: l, ordered: b.Ordered, prefetch: b.Prefetch, now: now}
	for _, r := range b.Requests {
		x.asks = append(x.asks, r.Ask)
	}
	b.Call = redisx.Call{Script: fakeScript, Keys: []string{l.ID}, Args: []string{send(x)}}
}

func (l *fake) Answer(b *Batch, message rueidis.RedisMessage) (again bool, err error) {
	number, err := message.ToString()
	if err != nil {
		return false, err
	}
	x := exchangeOf(number)
	v := x.view
	v.lag, v.renew = l.lag, l.renew
	letters := x.letters
	if x.part > 0 {
		letters += fmt.Sprint(" ", x.part)
	}
	if !b.AnswerBy(&v, letters, l.AboveLimit) {
		return false, fmt.Errorf("%q for %d requests", letters, len(b.Requests))
	}
	if _, detail := b.Wants(); !detail && !b.Ordered {
		b.Forecast = nil
	}
	if x.prefetched > 0 {
		b.Prefetch.Granted, b.Prefetch.Lasts = x.prefetched, b.Prefetch.Span
		b.Prefetch.Limit, b.Prefetch.Free, b.Prefetch.Reset, b.Prefetch.Refund = v.limit, v.free, v.after, l.refundOf(b)
	}
	return false, nil
}

func (l *fake) Receipt(b *Batch) receipt.Refund { return l.refundOf(b) }

func (*fake) Hold(*Batch, int, int64) *hold.Hold { return nil }

func (l *fake) refundOf(b *Batch) receipt.Refund {
	of := b.Args[0]
	return func(ctx context.Context, permits int64) error {
		return redistest.Err(ChangeKeepingPrefetches(ctx, l.Engine, l.DependsOn, l.back(permits, of)))
	}
}

// back returns permits of an exchange, or of the oldest grants.
func (l *fake) back(permits int64, of string) func(context.Context) (rueidis.RedisMessage, error) {
	return func(ctx context.Context) (rueidis.RedisMessage, error) {
		args := []string{send(&exchange{now: l.Engine.Now(), back: permits, of: of})}
		run := &Run{Call: redisx.Call{Script: fakeScript, Keys: []string{l.ID}, Args: args}}
		return l.Engine.Eval(ctx, l, run, nil, nil)
	}
}

func (l *fake) Explain(_ context.Context, err error) error { return fmt.Errorf("%s: %w", l.Name, err) }

// aboveLimit is the error of a request for more permits than the limit.
type aboveLimit struct{ permits, limit int64 }

func (e aboveLimit) Error() string { return fmt.Sprintf("%d permits of %d", e.permits, e.limit) }

func (l *fake) AboveLimit(permits, limit int64) error { return aboveLimit{permits, limit} }

// paged is a fake whose script needs more calls before the one that grants.
type paged struct {
	*fake
	more int
}

const endless = -1 // paged.more

func (l paged) Prepare(b *Batch, now time.Time) {
	l.fake.Prepare(b, now)
	b.Args = append(b.Args, strconv.Itoa(l.more))
}

func (l paged) Answer(b *Batch, reply rueidis.RedisMessage) (again bool, err error) {
	more, _ := strconv.Atoi(b.Args[1])
	if more == 0 {
		return l.fake.Answer(b, reply)
	}
	b.Args[1] = strconv.Itoa(more - 1)
	return true, nil
}

// state is what the server knows of a fake.
type state struct {
	limit   int64
	every   time.Duration
	grants  []grant
	deleted bool
}

// grant is permits that return at a time.
type grant struct {
	of      string // exchange
	permits int64
	returns time.Time
}

// free removes the grants that have expired, and returns the permits that are free.
func (s *state) free(now time.Time) int64 {
	s.grants = slices.DeleteFunc(s.grants, func(g grant) bool { return !g.returns.After(now) })
	free := s.limit
	for _, g := range s.grants {
		free -= g.permits
	}
	return free
}

// answer is the server: it replies to a call.
func (f *fixture) answer(p *server.Peer, command string, words ...string) bool {
	keys, args := redistest.ScriptCall(command, words)
	if args == nil {
		return false
	}
	f.Scripts.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure != "" {
		p.WriteError(f.failure)
		return true
	}
	x, s := exchangeOf(args[0]), f.limiters[keys[0]]
	if s == nil && x.back == 0 {
		s = &state{limit: x.limiter.limit, every: x.limiter.every}
		f.limiters[keys[0]] = s
	}
	if s == nil || s.deleted {
		p.WriteError("NOTSET the limiter has no rate")
		return true
	}
	now := cmp.Or(x.now, time.Now()).Truncate(time.Millisecond)
	switch {
	case len(args) > 1 && args[1] != "0": // another call follows
	case x.back > 0:
		s.back(x.back, x.of)
	default:
		s.take(x, args[0], now)
		f.note(x, keys[0], args[0])
	}
	x.view = view{limit: s.limit, free: s.free(now), every: s.every, now: now, grants: slices.Clone(s.grants)}
	for _, g := range s.grants {
		x.after = max(x.after, g.returns.Sub(now))
	}
	p.WriteBulk(args[0])
	return true
}

// note notes that an exchange was answered.
func (f *fixture) note(x *exchange, key, number string) {
	last := f.last[key]
	n, _ := strconv.ParseInt(number, 10, 64)
	last.reply = max(last.reply, n)
	if strings.ContainsAny(x.letters, "nx") {
		last.denial = max(last.denial, n)
	}
	if x.prefetched > 0 {
		last.prefetch = max(last.prefetch, n)
	}
	f.last[key] = last
}

// take decides requests in order. If none is denied, it prefetches at most half of the permits that are free
// then.
func (s *state) take(x *exchange, number string, now time.Time) {
	free, stopped, taken, returns := s.free(now), false, int64(0), now.Add(s.every)
	x.letters, x.part, x.prefetched = "", 0, 0
	for _, a := range x.asks {
		granted := min(a.Most(), free)
		switch {
		case a.Permits > s.limit:
			x.letters, granted = x.letters+"x", 0
		case stopped || a.Permits > free:
			x.letters, granted, stopped = x.letters+"n", 0, x.ordered
		case granted < a.Most():
			x.letters, x.part = x.letters+"p", granted
		default:
			x.letters += "g"
		}
		free, taken = free-granted, taken+granted
	}
	if !strings.Contains(x.letters, "n") {
		x.prefetched = min(x.prefetch.Permits, free/2)
	}
	if x.prefetched > 0 {
		returns = returns.Add(x.prefetch.Span)
	}
	if taken+x.prefetched > 0 {
		s.grants = append(s.grants, grant{number, taken + x.prefetched, returns})
	}
}

// back returns permits of the grant of an exchange, or of the oldest ones.
func (s *state) back(permits int64, of string) {
	for i := range s.grants {
		if g := &s.grants[i]; of == "" || g.of == of {
			n := min(permits, g.permits)
			g.permits -= n
			permits -= n
		}
	}
}

// view is the forecast of a fake.
type view struct {
	limit, free int64
	after       time.Duration // until all permits are free
	every       time.Duration
	now         time.Time
	grants      []grant // nil: all permits return after the same time
	lag, renew  time.Duration
}

func (v *view) Limit() int64 { return v.limit }

func (v *view) Free() int64 { return v.free }

// wait returns the time until permits are free, at most the limit.
func (v *view) wait(permits int64) time.Duration {
	free := v.free
	if permits <= free {
		return 0
	}
	for _, g := range v.grants {
		if free += g.permits; permits <= free {
			return g.returns.Sub(v.now)
		}
	}
	return v.after
}

func (v *view) Granted(later int64) Decision {
	return Decision{Allowed: true, Limit: v.limit, Remaining: v.free + later, ResetAfter: v.after}
}

func (v *view) GrantedParts(int64) []Decision { return nil }

func (v *view) Denied(permits int64) (Decision, bool) {
	a := Decision{Limit: v.limit, Remaining: v.free, RetryAfter: v.wait(permits), ResetAfter: v.after}
	return a, permits > v.free
}

func (v *view) Parts(permits int64) []Decision {
	a, denied := v.Denied(permits)
	a.Allowed = !denied
	return []Decision{a, {Limit: 100, RetryAfter: v.after / 2, ResetAfter: v.after / 4}}
}

func (v *view) Lag(int64) time.Duration { return v.lag }

func (v *view) Renew() time.Duration { return cmp.Or(v.renew, Never) }

func (v *view) Earliest(ahead, permits int64) time.Duration {
	rounds := (ahead + permits - 1) / v.limit
	after := v.wait(ahead + permits - rounds*v.limit)
	if v.every > 0 && rounds > int64((Never-after)/v.every) {
		return Never
	}
	return after + time.Duration(rounds)*v.every
}
