package gate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/guard/identity"
	"github.com/rratelimiter/rratelimiter/limit"
)

// keyed is a request of a key.
type keyed = gate.Call[string]

var errNotSent = errors.New("not sent")

// middleware is a gate as the contract of all middleware calls it.
var middleware = guardtest.Middleware{
	Server:      newServer,
	Client:      newClient,
	FromContext: gate.OutcomeOf[keyed],
	Settle:      func(ctx context.Context, cost int64) error { return gate.SettleIn[keyed](ctx, "gate", cost) },
	ErrNotSent:  errNotSent,
	AddressKey: func(peer netip.AddrPort, a guardtest.Address, headers [][2]string) (string, error) {
		lines := make(http.Header)
		for _, h := range headers {
			lines.Add(h[0], h[1])
		}
		identity.MustTrust("gate", a.Trusted)
		return identity.Address(a).Key(identity.Origin{Package: "gate", Peer: identity.Plain(peer.Addr()),
			Canonical: http.CanonicalHeaderKey, Lines: lines.Values})
	},
}

func TestGate_Server_KeepsTheContract(t *testing.T) { guardtest.TestServer(t, middleware) }

func TestGate_Client_KeepsTheContract(t *testing.T) { guardtest.TestClient(t, middleware) }

func optionsOf(s guardtest.Settings) gate.Options[keyed] {
	o := gate.Options[keyed]{Settings: gate.NewSettings()}
	for _, set := range (guardtest.Options[gate.Setting]{
		Wait:          func(d time.Duration) gate.Setting { return gate.Wait("gate", d) },
		Spread:        func(d time.Duration) gate.Setting { return gate.SpreadBy("gate", d) },
		Deadline:      func(d time.Duration) gate.Setting { return gate.Deadline("gate", d) },
		MaxWaiting:    func(n int) gate.Setting { return gate.MaxWaiting("gate", n) },
		OnFailure:     func(mode limit.FailureMode) gate.Setting { return gate.OnFailure("gate", mode) },
		Shadow:        func() gate.Setting { return func(s *gate.Settings) { s.Shadow = true } },
		Random:        func(r func(n int64) int64) gate.Setting { return func(s *gate.Settings) { s.Spread.Random = r } },
		OnRedisChange: func(c func(string, bool, error)) gate.Setting { return func(s *gate.Settings) { s.Changed = c } },
	}).Of(s) {
		set(&o.Settings)
	}
	key := func(r keyed) (string, error) {
		if r.Call == "" {
			return "", identity.Invalidf("no key")
		}
		return r.Call, nil
	}
	switch {
	case s.Err != nil:
		o.Chooser = gate.Func[keyed](func(keyed) (limit.Joinable, error) { return nil, s.Err })
	case s.Each != nil:
		o.Chooser = gate.Func[keyed](gate.Each("gate", s.Client, "api", key, s.Each))
	case s.Initial != (rratelimiter.Rate{}):
		o.Chooser = gate.Func[keyed](gate.EachRedisson("gate", s.Client, "api:", key, s.Initial))
	default:
		o.Chooser = gate.Func[keyed](gate.All[keyed]("gate", s.Limiter))
	}
	if s.Cost != nil {
		o.Cost = func(keyed) (int64, error) {
			cost := s.Cost()
			if cost < 0 {
				return cost, identity.Invalidf("the cost is negative")
			}
			return cost, nil
		}
	}
	if s.Skip != nil {
		o.Skip = func(keyed) bool { return s.Skip() }
	}
	if s.Report != nil {
		o.Report = func(_ keyed, outcome limit.Outcome) { s.Report(outcome) }
	}
	if s.OnSettleError != nil {
		o.Unsettled = func(_ keyed, err error) { s.OnSettleError(err) }
	}
	return o
}

func newServer(s guardtest.Settings) guardtest.Server {
	g := gate.NewGate("gate", optionsOf(s))
	return func(ctx context.Context, key string) (reply guardtest.Reply) {
		v := g.Admit(keyed{In: ctx, Call: key})
		if v != nil {
			defer v.End(0) // also if the handler panics
			ctx = v.Context()
		}
		if v == nil || v.Answer.Passes() {
			if s.Handler != nil {
				s.Handler(ctx)
			}
			return guardtest.Reply{Status: http.StatusOK}
		}
		reply.Status, reply.RetryAfter = http.StatusServiceUnavailable, v.Settings.Spread.Add(v.Answer.RetryAfter())
		switch v.Answer.Result {
		case limit.Rejected:
			reply.Status, reply.Text = http.StatusTooManyRequests, fmt.Sprintf("%q", v.Answer.Violated)
		case limit.Invalid:
			reply.Status = http.StatusBadRequest
		}
		return reply
	}
}

func newClient(s guardtest.Settings, upstream func() guardtest.Reply) guardtest.Client {
	g := gate.NewOutgoing("gate", optionsOf(s))
	return func(ctx context.Context, key string) (guardtest.Reply, error) {
		v := g.Admit(keyed{In: ctx, Call: key})
		if v != nil && !v.Answer.Passes() {
			return guardtest.Reply{}, v.NotSent(errNotSent)
		}
		defer v.Return()
		reply := upstream()
		if v != nil && (reply.Status == http.StatusTooManyRequests || reply.Status == http.StatusServiceUnavailable) {
			g.Pause(v.Limiter, reply.RetryAfter)
		}
		return reply, nil
	}
}
