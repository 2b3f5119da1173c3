package limit

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// protocol is the part of engine.Protocol that all calls share. It makes the arguments of scripts and
// reads their replies:
//   - The engine sends requests for permits (acquire.go) and for reservations (reserve.go), several
//     in one call. Arguments and Answer are its hooks.
//   - Every other call is one request, which eval sends (change.go).
//
// reply.go reads all replies, and state.go computes decisions from them.
type protocol struct{ limiter *Limiter }

// AboveLimit implements engine.Protocol.
func (p protocol) AboveLimit(permits, limit int64) error { return p.limiter.aboveLimit(permits, limit) }

// Explain implements engine.Protocol.
func (p protocol) Explain(ctx context.Context, err error) error { return p.limiter.explain(ctx, err) }

// callArguments appends the arguments of members at a time.
func callArguments(args []string, members []member, now time.Time) []string {
	for _, m := range members {
		args = m.policy.arguments(args, now)
	}
	return args
}

// ask runs a script that replies the state of all members.
func (l *Limiter) ask(ctx context.Context, c call, own ...string) (*state, error) {
	message, err := l.eval(ctx, c, own)
	if err != nil {
		return nil, err
	}
	s, _, err := l.read(message)
	return s, err
}

// eval runs a script, and repeats it as often as the script wants. Its arguments are the time, its
// own, those of the members, and the last ones.
func (l *Limiter) eval(ctx context.Context, c call, own []string, last ...string) (rueidis.RedisMessage, error) {
	g := l.plan.client.Engine
	dated := func() []string {
		now := g.Now()
		return callArguments(append([]string{g.Micros(now)}, own...), l.members, now)
	}
	args := append(dated(), last...)
	var before []redisx.Call
	initialized := 0
	for calls := 1; ; calls++ {
		message, err := g.Eval(ctx, before, scriptFor(c, l.members), l.keys, args,
			func(args []string) { copy(args, dated()) })
		if err != nil {
			return message, l.explain(ctx, err)
		}
		if before = nil; c != release && notInitialized(message) && initialized < mostInitial {
			if before = l.initial(); before != nil {
				initialized++
				continue
			}
		}
		next, again := nextCall(c, l.members, message, args)
		if !again {
			return message, nil
		}
		if err := engine.Repeat(ctx, calls); err != nil {
			return message, l.explain(ctx, err)
		}
		args = next
	}
}

// mostInitial is how often a call sets the initial rates, if another client deletes them each time.
const mostInitial = 3

// initial returns the calls that set the initial rates of joined limiters, or nil.
func (l *Limiter) initial() (calls []redisx.Call) {
	for _, m := range l.members {
		if p, ok := m.policy.(shared); ok {
			calls = append(calls, p.initial()...)
		}
	}
	return calls
}

// notInitialized reports whether a script replied that a joined limiter has no rate.
func notInitialized(message rueidis.RedisMessage) bool {
	r := redisx.ReadReply(message)
	return message.IsArray() && r.Number() == replyNotInitialized && r.OK()
}

// aboveLimit returns the error of a request for more permits than can ever be granted.
func (l *Limiter) aboveLimit(permits, limit int64) error {
	return fmt.Errorf("%w: %d requested of %q, which can never grant more than %d", rratelimiter.ErrPermitsExceedRate,
		permits, l.name, limit)
}

// explain adds the limiter to the error of a call. If a key has another type, it returns a
// StateError for that key.
func (l *Limiter) explain(ctx context.Context, err error) error {
	var types []string
	for _, m := range l.members {
		types = append(types, m.policy.keeps()...)
	}
	if key, typ := redisx.WrongType(ctx, l.plan.client.Engine.Redis(), err, l.keys, types); key != "" {
		return &rratelimiter.StateError{Key: key, Value: typ}
	}
	return fmt.Errorf("limit: limiter %q: %w", l.name, err)
}

// unexpected returns the error of a reply of another version.
func (l *Limiter) unexpected(message rueidis.RedisMessage) error {
	return fmt.Errorf("limit: limiter %q: the script replied %s, which this version does not know", l.name,
		message.String())
}
