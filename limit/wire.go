package limit

import (
	"cmp"
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// wire is a limiter as its scripts see it. It makes their arguments and reads their replies:
//   - The engine sends requests for permits, several in one call, by its protocol (acquire.go).
//   - Every other call is one request, which eval sends (change.go).
//
// reply.go reads all replies, and state.go computes decisions from them.
type wire struct {
	plan      *plan
	name      string // that the limiter was opened with
	members   []member
	keys      []string // of the members, in their order
	dependsOn []string // as in engine.Limiter
}

// ask runs a script that replies the state of all members.
func (w *wire) ask(ctx context.Context, c call, own ...string) (*state, error) {
	message, err := w.eval(ctx, c, own)
	if err != nil {
		return nil, err
	}
	s, _, err := w.read(message)
	return s, err
}

// eval runs a script, and repeats it as often as the script wants. Its arguments are the time, its
// own, those of the members, and the last ones.
func (w *wire) eval(ctx context.Context, c call, own []string, last ...string) (rueidis.RedisMessage, error) {
	g := w.plan.client.Engine
	dated := func() []string {
		now := g.Now()
		return callArguments(append([]string{string(g.AppendMicros(nil, now))}, own...), w.members, now)
	}
	args := append(dated(), last...)
	var before []redisx.Call
	initialized := 0
	for calls := 1; ; calls++ {
		message, err := g.Eval(ctx, before, scriptFor(c, w.members), w.keys, args,
			func(args []string) { copy(args, dated()) })
		if err != nil {
			return message, w.explain(ctx, err)
		}
		if before = nil; c != release && notInitialized(message) && initialized < engine.MaxInitial {
			if before = w.initial(); before != nil {
				initialized++
				continue
			}
		}
		next, again := nextCall(c, w.members, message, args)
		if !again {
			return message, nil
		}
		if err := engine.Repeat(ctx, calls); err != nil {
			return message, w.explain(ctx, err)
		}
		args = next
	}
}

// run is eval for a script that replies 1.
func (w *wire) run(ctx context.Context, c call, own []string, last ...string) (rueidis.RedisMessage, error) {
	message, err := w.eval(ctx, c, own, last...)
	if err == nil && !message.IsInt64() {
		_, _, err = w.read(message) // why it stopped
		err = cmp.Or(err, w.unexpected(message))
	}
	return message, err
}

// initial returns the calls that set the initial rates of joined limiters, or nil.
func (w *wire) initial() (calls []redisx.Call) {
	for _, m := range w.members {
		if m.redisson != nil {
			calls = append(calls, m.redisson.Initial...)
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
func (w *wire) aboveLimit(permits, limit int64) error {
	return fmt.Errorf("%w: %d requested of %q, which can never grant more than %d", rratelimiter.ErrPermitsExceedRate,
		permits, w.name, limit)
}

// explain adds the limiter to the error of a call. If a key has another type, it returns a
// StateError for that key.
func (w *wire) explain(ctx context.Context, err error) error {
	var types []string
	for _, m := range w.members {
		types = append(types, m.types()...)
	}
	if key, typ := redisx.WrongType(ctx, w.plan.client.Engine.Redis(), err, w.keys, types); key != "" {
		return &rratelimiter.StateError{Key: key, Value: typ}
	}
	return fmt.Errorf("limit: limiter %q: %w", w.name, err)
}

// unexpected returns the error of a reply of another version.
func (w *wire) unexpected(message rueidis.RedisMessage) error {
	return fmt.Errorf("limit: limiter %q: the script replied %s, which this version does not know", w.name,
		message.String())
}
