package grpclimit

import (
	"context"
	"time"

	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
	"github.com/rratelimiter/rratelimiter/internal/guard/identity"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Option is a setting of an interceptor. Some options apply only to servers, or only to clients.
type Option interface{ apply(s *settings) }

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

// common returns an option of the settings that grpclimit and httplimit have in common.
func common(change gate.Setting) Option {
	return option(func(s *settings) { change(&s.Settings) })
}

type settings struct {
	pauseOn []func(*status.Status) (time.Duration, bool)
	gate.Options[call]
}

func newSettings(at string, choose func(context.Context, Call) (Limiter, error), opts []Option) *settings {
	if choose == nil {
		panic(at + ": choose is nil: pass All, Each or a function that returns a Limiter")
	}
	s := new(settings)
	s.Settings, s.Chooser = gate.NewSettings(), gate.Func[call](together(choose))
	gate.Apply(&s.Options, opts, func(o Option) { o.apply(s) })
	return s
}

// Cost sets the cost of a call, 1 by default. A call of cost 0 passes without a call to
// Redis. A cost below 0 is [limit.ErrInvalidRequest]. A cost above the largest possible grant is always
// denied, without a RetryInfo.
func Cost(cost func(context.Context, Call) int64) Option {
	if cost == nil {
		return nil
	}
	return option(func(s *settings) {
		s.Cost = func(c call) (int64, error) {
			permits := cost(c.In, c.Call)
			if permits < 0 {
				return permits, identity.Invalidf("grpclimit: Cost: the cost is negative: %d", permits)
			}
			return permits, nil
		}
	})
}

// Skip lets the calls pass for which skip returns true, without a call to Redis: health
// checks, methods, or ranges of addresses (with [Address.Client]).
func Skip(skip func(context.Context, Call) bool) Option {
	if skip == nil {
		return nil
	}
	return option(func(s *settings) {
		s.Skip = func(c call) bool { return skip(c.In, c.Call) }
	})
}

// Wait lets a call wait for at most d instead of being denied, as httplimit.Wait does. A client
// waits as long as the context of a call lasts by default, and with Wait for at most d.
func Wait(d time.Duration) Option { return common(gate.Wait("grpclimit", d)) }

// MaxWaiting bounds the number of calls that wait at once in an interceptor, as
// httplimit.MaxWaiting does. A server has a bound of 1,000 by default, and a client no bound.
func MaxWaiting(n int) Option { return common(gate.MaxWaiting("grpclimit", n)) }

// Spread adds a random part of less than d to the RetryInfo and the retry pushback of each call that
// a server refuses. It is httplimit.Spread for these, and panics if d is below 0.
func Spread(d time.Duration) Option { return common(gate.SpreadBy("grpclimit", d)) }

// Shadow lets all calls pass, and reports no limits to clients. Calls still take permits and are
// decided, for [Report] and the handler.
func Shadow() Option { return common(func(s *gate.Settings) { s.Shadow = true }) }

// Report sets a callback for every decision. It runs in the goroutine of the call, before the call
// proceeds.
func Report(report func(context.Context, Call, limit.Outcome)) Option {
	if report == nil {
		return nil
	}
	return option(func(s *settings) {
		s.Report = func(c call, o limit.Outcome) { report(c.In, c.Call, o) }
	})
}

// OnSettleError sets a callback for each [Settle] whose call to Redis failed or was not made, and for each lost place of
// a [limit.InFlight], as httplimit.OnSettleError does.
func OnSettleError(failed func(context.Context, Call, error)) Option {
	if failed == nil {
		return nil
	}
	return option(func(s *settings) {
		s.Unsettled = func(c call, err error) { failed(c.In, c.Call, err) }
	})
}

// OnFailure sets the failure mode. httplimit.OnFailure defines when an outage begins and ends.
func OnFailure(mode limit.FailureMode) Option {
	return common(gate.OnFailure("grpclimit", mode))
}

// Deadline sets the time that Redis has to answer for a call, 500 ms by default. A wait
// for permits is not part of it. A [Settle] is another request with the same deadline.
func Deadline(d time.Duration) Option { return common(gate.Deadline("grpclimit", d)) }

// OnRedisChange sets a callback for each change of the state of Redis, as httplimit.OnRedisChange
// does.
func OnRedisChange(changed func(node string, up bool, err error)) Option {
	return common(func(s *gate.Settings) { s.Changed = changed })
}
