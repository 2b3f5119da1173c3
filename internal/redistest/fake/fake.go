// Package fake has a limiter without Redis, for tests of the packages that call limiters by their inside.Handle.
package fake

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Limiter is a limiter whose calls are functions. The zero Limiter grants all. Each has a node of Redis of its own.
type Limiter struct {
	inside.Sealed // without parts: it is its own Handle

	Called  string                              // its name
	Of      []limit.Policy                      // its policies
	Beside  *Limiter                            // whose node it has too; or nil
	OnTry   Try                                 // nil grants
	OnWait  func(context.Context) (bool, error) // in a context with its deadline; nil is OnTry
	OnProbe func(context.Context) error         // nil answers

	once   sync.Once
	engine *engine.Engine
}

// Try is the call of a Limiter that takes permits.
type Try func(ctx context.Context, ask engine.Ask, result *engine.Result) error

// Decide returns a Try with the decisions of a function.
func Decide(take func(context.Context) (rratelimiter.Decision, error)) Try {
	return func(ctx context.Context, _ engine.Ask, result *engine.Result) error {
		d, err := take(ctx)
		result.Decision = engine.Decision(d)
		return err
	}
}

// Deciding returns a limiter with the decisions of a function, which probes call too.
func Deciding(take func(context.Context) (rratelimiter.Decision, error)) *Limiter {
	return &Limiter{OnTry: Decide(take), OnProbe: func(ctx context.Context) error {
		_, err := take(ctx)
		return err
	}}
}

// Failing returns a limiter whose Redis fails.
func Failing(err error, policies ...limit.Policy) *Limiter {
	l := Deciding(func(context.Context) (d rratelimiter.Decision, _ error) { return d, err })
	l.Called, l.Of = "failing", policies
	return l
}

// Hang returns when ctx ends, also if that has no Done, as in a probe.
func Hang(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
	return ctx.Err()
}

// Name returns the name.
func (l *Limiter) Name() string { return l.Called }

// Policies returns the policies.
func (l *Limiter) Policies() []limit.Policy { return l.Of }

// Take takes permits.
func (l *Limiter) Take(ctx context.Context, permits int64) (rratelimiter.Decision, error) {
	var result engine.Result
	err := l.Try(ctx, engine.Ask{Permits: permits}, &result)
	return rratelimiter.Decision(result.Decision), err
}

// Try takes permits that are free now.
func (l *Limiter) Try(ctx context.Context, ask engine.Ask, result *engine.Result) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.OnTry == nil {
		result.Allowed = true
		return nil
	}
	return l.OnTry(ctx, ask, result)
}

// Wait waits for permits.
func (l *Limiter) Wait(ctx context.Context, ask engine.Ask, deadline time.Time, result *engine.Result) (bool, error) {
	if !deadline.IsZero() {
		limited, stop := context.WithDeadline(ctx, deadline)
		defer stop()
		ctx = limited
	}
	if l.OnWait != nil {
		return l.OnWait(ctx)
	}
	err := l.Try(ctx, ask, result)
	return result.Allowed, err
}

// Node returns an engine whose Redis answers only probes.
func (l *Limiter) Node() (g *engine.Engine, key string, ok bool) {
	if l.Beside != nil {
		return l.Beside.Node()
	}
	l.once.Do(func() { l.engine = engine.New(engine.Settings{Redis: node{probe: l.OnProbe}}) })
	return l.engine, keyOfNode, true
}

// Members returns one member for each policy, at least one.
func (l *Limiter) Members() []inside.Member {
	members := make([]inside.Member, max(1, len(l.Of)))
	for i := range members {
		if members[i].Name = l.Called; i < len(l.Of) {
			members[i].Policy = l.Of[i]
		}
	}
	return members
}

// ChargeMore returns nil.
func (l *Limiter) ChargeMore() receipt.Charge { return nil }

// keyOfNode is in slot 0, the only one that the zero rueidis.Builder accepts.
const keyOfNode = "06S"

// node is a Redis that answers only probes.
type node struct {
	rueidis.Client // nil: other calls panic
	probe          func(context.Context) error
}

func (n node) Mode() rueidis.ClientMode { return rueidis.ClientModeStandalone }

func (n node) Nodes() map[string]rueidis.Client { return nil }

func (n node) B() (b rueidis.Builder) { return b }

func (n node) Do(ctx context.Context, _ rueidis.Completed) rueidis.RedisResult {
	if n.probe == nil {
		return rueidis.NewResult(rueidis.RedisMessage{}, nil)
	}
	return rueidis.NewResult(rueidis.RedisMessage{}, n.probe(ctx))
}
