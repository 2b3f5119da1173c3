package limit

import (
	"fmt"
	"strconv"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
)

// redisson is the policy of a *rratelimiter.Limiter that is joined with others: its rate is in
// Redis.
type redisson struct {
	limiter *inside.Limiter
	name    string
}

func (p redisson) validate() error { return nil }

func (p redisson) kind() string { return "redisson" }

func (p redisson) suffix(text []byte) []byte { return text }

// settings is the name in quotes, so that it can look like nothing else of an ID.
func (p redisson) settings(text []byte) []byte { return strconv.AppendQuote(text, p.name) }

// The arguments of a redisson, by their place among its own.
const (
	randomArg = iota
	cursorArg
)

func (p redisson) arguments(args []string, _ time.Time) []string {
	return append(args, p.limiter.Member(), "")
}

func (p redisson) most() int64 { return engine.MostPermits }

func (p redisson) String() string { return fmt.Sprintf("the rate of %q", p.name) }

func (p redisson) forecast(_ int64, told []int64) (forecast, bool) {
	if len(told) < 4 || len(told)%2 != 0 {
		return nil, false
	}
	reply := inside.Reply{Rate: told[0], Interval: told[1], Free: told[2], Reset: told[3], Returns: told[4:]}
	return redissonForecast{p.limiter.Forecast(reply), reply.Free, time.Duration(reply.Reset) * time.Millisecond}, true
}

func (p redisson) keeps() []string { return p.limiter.Types }

// redissonForecast is a limiter of Redisson's layout as a call left it.
type redissonForecast struct {
	engine.Forecast
	free    int64
	resetIn time.Duration
}

func (o redissonForecast) limit() int64 { return o.Limit() }

func (o redissonForecast) left() int64 { return o.free }

func (o redissonForecast) wait(permits int64) (time.Duration, bool) {
	if permits <= o.free {
		return 0, true
	}
	answer, known := o.Denied(permits)
	return answer.RetryAfter, known
}

func (o redissonForecast) reset() time.Duration { return o.resetIn }

func (o redissonForecast) earliest(wanted int64) time.Duration { return o.Earliest(wanted) }
