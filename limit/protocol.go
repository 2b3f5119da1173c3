package limit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// protocol is a limiter as its scripts see it. It makes their arguments and reads their replies:
//   - The engine sends requests for permits, several in one call, by its protocol (acquire.go).
//   - Every other call is one request, which eval sends (change.go).
//
// read reads all full replies. A state computes decisions from one (forecast.go).
type protocol struct {
	plan      *plan
	name      string // that the limiter was opened with
	members   []member
	keys      []string // of the members, in their order
	dependsOn []string // as in engine.Limiter

	waitersKey atomic.Pointer[string] // nil until callers wait, who keep their Limiter: no Keyed reuses it
}

// stateAfter runs a script that replies the state of all members.
func (p *protocol) stateAfter(ctx context.Context, c call, own ...string) (*state, error) {
	message, err := p.eval(ctx, c, func() []string { return own })
	if err != nil {
		return nil, err
	}
	s, _, err := p.read(message, false)
	return s, err
}

// eval runs a script, and repeats it as often as the script wants. Its arguments are its own, the time and the
// epoch, those of the members, and the last ones.
func (p *protocol) eval(ctx context.Context, c call, own func() []string, last ...string) (
	rueidis.RedisMessage, error) {
	g := p.plan.client.Engine
	dated := func() []string {
		now := g.Now()
		var args []string
		if own != nil {
			args = slices.Clone(own())
		}
		args = p.plan.fixed(p.plan.timed, p.plan.epochs && takesPermits(c), args, now)
		return callArguments(args, p.members, now)
	}
	run := &engine.Run{Call: redisx.Call{Script: scriptFor(c, p.members), Keys: p.keys, Args: append(dated(), last...)}}
	return g.Eval(ctx, p, run, func(args []string) { copy(args, dated()) },
		func(message rueidis.RedisMessage) (bool, error) { return p.again(c, run, message), nil })
}

// again prepares the next call of a script whose reply requires one, and reports whether it does.
func (p *protocol) again(c call, run *engine.Run, message rueidis.RedisMessage) (again bool) {
	switch reply := redisx.ReadReply(message); reply.Number() {
	case replyNoRate:
		return c != releaseCall && run.Initialize(p.initial())
	case replyAgain:
		run.Args, again = nextCall(c, p.members, reply, run.Args)
	}
	return again
}

// run is eval for a script that replies a number.
func (p *protocol) run(ctx context.Context, c call, own func() []string, last ...string) (rueidis.RedisMessage, error) {
	message, err := p.eval(ctx, c, own, last...)
	if err == nil && !message.IsInt64() {
		_, _, err = p.read(message, false) // why it stopped
		err = cmp.Or(err, p.unexpected(message))
	}
	return message, err
}

// initial returns the calls that set the initial rates of joined limiters, or nil.
func (p *protocol) initial() (calls []redisx.Call) {
	for _, m := range p.members {
		if m.redisson != nil {
			calls = append(calls, m.redisson.Initial...)
		}
	}
	return calls
}

// AboveLimit returns the error of a request for more permits than can ever be granted.
func (p *protocol) AboveLimit(permits, limit int64) error {
	return fmt.Errorf("%w: %d requested of %q, which can never grant more than %d", rratelimiter.ErrPermitsExceedRate,
		permits, p.name, limit)
}

// Explain adds the limiter to the error of a call. If a key has another type, it returns a
// StateError for that key.
func (p *protocol) Explain(ctx context.Context, err error) error {
	var types []string
	for _, m := range p.members {
		types = append(types, m.types()...)
	}
	if key, typ := redisx.WrongType(ctx, p.plan.client.Engine.Redis(), err, p.keys, types); key != "" {
		return &rratelimiter.StateError{Key: key, Value: typ}
	}
	return fmt.Errorf("limit: limiter %q: %w", p.name, err)
}

// unexpected returns the error of a reply of another version.
func (p *protocol) unexpected(message rueidis.RedisMessage) error {
	return fmt.Errorf("limit: limiter %q: the script replied %s, which this version does not know", p.name,
		message.String())
}

// The first number of a full reply.
const (
	replyDone = iota
	replyAgain
	replyNoRate
	replyCorrupt
)

// nextCall returns the arguments of the next call for a reply that requires one, of which the code is read.
// They are those of the members at the time of the reply. A policy keeps its cursor while another one is
// counted. If the reply is not valid, it returns the arguments before and false.
func nextCall(c call, members []member, r redisx.Reply, args []string) (next []string, again bool) {
	fixed := fixedArguments(c, members)
	next = callArguments(args[:fixed:fixed], members, time.UnixMicro(r.Number()))
	next = append(next, args[argument(c, members, len(members)):]...)
	counted, cursor := int64(0), "" // the policy with a cursor, from 1 on
	if r.Len() > 0 {
		if counted, cursor = r.Number(), r.Text(); counted < 1 || counted > int64(len(members)) {
			return args, false
		}
	}
	for i, m := range members {
		if m.redisson == nil {
			continue
		}
		at := argument(c, members, i) + cursorArg
		if next[at] = args[at]; int64(i) == counted-1 {
			next[at] = cursor
		}
	}
	if !r.Ended() {
		return args, false
	}
	return next, true
}

// read reads a full reply, of a call that shares permits with the waiters of other Clients or of another one.
func (p *protocol) read(message rueidis.RedisMessage, shares bool) (s *state, letters string, err error) {
	r := redisx.ReadReply(message)
	if code := r.Number(); code != replyDone {
		return nil, "", p.stopped(code, r, message)
	}
	s, letters = &state{most: p.plan.most, plan: p.plan}, r.Text()
	for _, m := range p.members {
		s.add(m, &r)
	}
	of := 0
	if shares {
		of = 5
	}
	if r.Len() == of+2 { // with a prefetch
		s.prefetched, s.lasts = r.Number(), time.Duration(r.Number())*time.Millisecond
	}
	if shares {
		s.shared.Others, s.held = r.Number() > 0, micros(r.Number())
		s.shared.Slow, s.rank, s.shared.Moved = micros(r.Number()), micros(r.Number()), micros(r.Number())
	}
	if !r.Ended() {
		return nil, "", p.unexpected(message)
	}
	return s, letters, nil
}

// stopped returns the error for which a script stopped. The reader is behind the code.
func (p *protocol) stopped(code int64, r redisx.Reply, message rueidis.RedisMessage) error {
	at := r.Number()
	if at < 1 || at > int64(len(p.members)) {
		return p.unexpected(message)
	}
	m := p.members[at-1]
	if code == replyNoRate && r.Ended() {
		return fmt.Errorf("%w: %q has no rate, open it with InitialRate or call SetRate",
			rratelimiter.ErrNotInitialized, m.name)
	}
	key, field := int64(1), ""
	if r.Len() == 3 { // of several keys
		key, field = r.Number(), r.Text()
	}
	value := r.Text()
	if code != replyCorrupt || !r.Ended() || key < 1 || key > int64(len(m.keys)) {
		return p.unexpected(message)
	}
	return &rratelimiter.StateError{Key: m.keys[key-1], Field: field, Value: value}
}
