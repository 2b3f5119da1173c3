package limit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// ErrNotChargeable is returned by Charge of a Join with a *rratelimiter.Limiter, which cannot owe
// permits, and of a limiter that has only an [InFlight].
var ErrNotChargeable = errors.New("limit: the limiter cannot be charged")

// ErrNotReleasable is returned by Release of a limiter that has only an [InFlight].
var ErrNotReleasable = errors.New("limit: only the holder of a place of an InFlight returns it")

// Joinable is a *[Limiter], a *[rratelimiter.Limiter], or what Each of package httplimit or grpclimit returns for a
// request. No type of another module is one, but for types that embed one of these: they count as the limiter that
// they embed, whose methods are called. Tests of such a program can use package rratelimitertest.
type Joinable interface {
	Name() string
	Take(ctx context.Context, permits int64) (rratelimiter.Decision, error)
	seal
}

// seal is what all Joinables and Takeables have.
type seal = inside.Seal

// Join returns a limiter that takes the permits of a request from all limiters, or from none if one
// has not enough. One script call decides. The limiters must be of one Client. Java programs may
// use a *rratelimiter.Limiter among them.
//
// On a Redis Cluster all names need the same hash tag, as "{tenant:7}:second" and "{tenant:7}:day"
// have; otherwise calls fail with [rratelimiter.ErrCrossSlot]. No limiters, more than 10 policies
// in all, or one limiter twice are [rratelimiter.ErrInvalidRate]. Limiters of several Clients are
// [rratelimiter.ErrInvalidOption]. An invalid member has its own error.
//
// Release acts on one Redisson limiter after another, and then on all policies with one call. If Redis fails
// meanwhile, it may act on some members only. Reset is one call.
func Join(limiters ...Joinable) *Limiter {
	names := make([]string, len(limiters))
	var client inside.Client
	var all []member
	for i, joinable := range limiters {
		of, members, err := openJoinable(joinable)
		if err == nil && i > 0 && of.Engine != client.Engine {
			err = fmt.Errorf("%w: %q is of another Client than the limiters before it", rratelimiter.ErrInvalidOption,
				joinable.Name())
		}
		if err != nil {
			return failed("", err)
		}
		client, all, names[i] = of, append(all, members...), joinable.Name()
	}
	name := strings.Join(names, " + ")
	if n := len(all); n < 1 || n > policy.MaxJoined {
		return failed(name, invalid("%d policies for %q, want 1 to %d", n, name, policy.MaxJoined))
	}
	for i, m := range all {
		for _, before := range all[:i] {
			if shared := slices.IndexFunc(m.keys,
				func(key string) bool { return slices.Contains(before.keys, key) }); shared >= 0 {
				return failed(name, invalid("%+v of %q and %+v of %q would count in the same key, %q",
					before.policy, before.name, m.policy, m.name, m.keys[shared]))
			}
		}
	}
	return openMembers(client, name, all)
}

// openMembers opens the limiter of members that have names and keys.
func openMembers(client inside.Client, name string, members []member) *Limiter {
	l := &Limiter{protocol: protocol{name: name, members: members}}
	l.sealed = inside.New((*handle)(l))
	id, dependsOn := idOfPolicies, make([]string, len(members))
	for i, m := range members {
		l.protocol.keys, dependsOn[i] = append(l.protocol.keys, m.keys...), m.keys[0]
		id, _ = extendID(id, keyPrefix{name: m.keys[0]}, "", m.fingerprint)
	}
	l.setPlan(planOf(client, members), dependsOn)
	l.calls.Name, l.calls.ID, l.crossSlot = name, id, client.SameSlot(l.protocol.keys...)
	return l
}

// openJoinable returns the client and the members of a limiter, or its error.
func openJoinable(joinable Joinable) (inside.Client, []member, error) {
	if h, ok := inside.Of[*handle](joinable); ok {
		return h.protocol.plan.client, h.protocol.members, h.err
	}
	h, ok := inside.Of[inside.Redisson](joinable)
	if !ok {
		return inside.Client{}, nil, fmt.Errorf("%w: open the limiters of a Join: a %T is zero", rratelimiter.ErrNoClient, joinable)
	}
	l, err := h.Open()
	if err != nil {
		return inside.Client{}, nil, err
	}
	p := redisson{&l, joinable.Name()}
	return l.Client, []member{{policy: p, described: describedRedisson, fingerprint: p.String(), name: p.name,
		keys: l.Keys, redisson: &l}}, nil
}

// redisson is the policy of a *rratelimiter.Limiter that is joined with others: its rate is in
// Redis.
type redisson struct {
	limiter *inside.Limiter
	name    string
}

// describedRedisson is the description of each redisson. The quota is in Redis.
var describedRedisson = &policy.Description{Name: "redisson", Lua: "redisson", Most: engine.MaxPermits}

func (p redisson) validate() error { return nil }

// The arguments of a redisson, by their place among its own.
const (
	randomArg = iota
	cursorArg
)

func (p redisson) arguments(args []string, _ time.Time) []string {
	return append(args, p.limiter.Member(), "")
}

// String quotes the name, so that it can look like nothing else of an ID.
func (p redisson) String() string {
	text := fmt.Sprintf("the rate of %q", p.name)
	for _, c := range p.limiter.Initial {
		text += fmt.Sprintf(", initially %q", c.Args)
	}
	return text
}

func (p redisson) forecast(r *redisx.Reply) forecast {
	reply := inside.Reply{Rate: r.Number(), Interval: r.Number(), Free: r.Number(), Reset: r.Number(),
		KeepAlive: r.Number()}
	for r.Len() > 0 {
		reply.Returns = append(reply.Returns, r.Number(), r.Number())
	}
	return redissonForecast{p.limiter.Forecast(reply), time.Duration(reply.Reset) * time.Millisecond}
}

// redissonForecast is a limiter of Redisson's layout as a call left it.
type redissonForecast struct {
	engine.Forecast
	resetIn time.Duration
}

func (o redissonForecast) wait(permits int64) (time.Duration, bool) {
	answer, known := o.Denied(permits)
	return answer.RetryAfter, known
}

func (o redissonForecast) reset(int64) time.Duration { return o.resetIn }
