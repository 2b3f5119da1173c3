package limit

import (
	"fmt"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/policy"
)

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

func (p redisson) forecast(reply []int64) (forecast, bool) {
	if len(reply) < 5 || len(reply)%2 != 1 {
		return nil, false
	}
	r := inside.Reply{Rate: reply[0], Interval: reply[1], Free: reply[2], Reset: reply[3], KeepAlive: reply[4],
		Returns: reply[5:]}
	return redissonForecast{p.limiter.Forecast(r), time.Duration(r.Reset) * time.Millisecond}, true
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

func (o redissonForecast) forWaiters() forecast { return nil }
