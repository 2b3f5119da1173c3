package demo

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/limit"
)

var limiters = []string{"paid-api", "exports", "login:ada"}

var logins = limit.FixedWindow{Permits: 5, Interval: 8 * time.Second}

// given returns the policies of package limit, whose limits are not in Redis.
func given() []names.Given {
	given, _ := names.NewGiven(logins) // never fails
	return []names.Given{given}
}

// caller is one program. It requests permits at random times, with a rate that changes over time.
type caller struct {
	try     func(ctx context.Context, permits int64) (bool, error)
	permits int64
	often   func(t float64) float64 // requests per second, t seconds after the start
	next    float64
}

// newCallers sets the rates and returns the programs.
func newCallers(ctx context.Context, redis rueidis.Client) ([]*caller, error) {
	client := rratelimiter.New(redis)
	api, exports := client.Limiter(limiters[0]), client.Limiter(limiters[1])
	if err := api.SetRate(ctx, rratelimiter.Rate{Permits: 100, Interval: 10 * time.Second}); err != nil {
		return nil, err
	}
	if err := exports.SetRate(ctx, rratelimiter.Rate{Type: rratelimiter.PerClient, Permits: 20,
		Interval: 5 * time.Second}); err != nil {
		return nil, err
	}
	var all []*caller
	for i := range 3 {
		all = append(all, &caller{try: api.TryAcquire, permits: 1, often: wave(0.2, 5.5, 19, 0.4*float64(i))})
	}
	for i, id := range []string{"5f0c9a52-7d1e-4b7a-9a5e-0d6a1c2b3e01", "a83d4e17-22b0-4f63-8c11-7be09d5f6a02",
		"c41b7f60-9e58-4d2c-b0f7-3a1e8d9c4b03"} {
		program := rratelimiter.New(redis, rratelimiter.WithClientID(uuid.MustParse(id))).Limiter(limiters[1])
		all = append(all, &caller{try: program.TryAcquire, permits: 2, often: wave(0.1, 1.6+float64(i), 19, float64(2*i))})
	}
	login := limit.New(client, limiters[2], logins)
	return append(all, &caller{try: login.TryAcquire, permits: 1, often: wave(0, 2.5, 17, 1)}), nil
}

// wave returns a function that oscillates between two numbers.
func wave(low, high, seconds, phase float64) func(float64) float64 {
	return func(t float64) float64 { return low + (high-low)*(1-math.Cos(2*math.Pi*t/seconds+phase))/2 }
}

// work makes the requests of one step, t seconds after the start.
func (c *caller) work(ctx context.Context, t float64) error {
	for c.next <= t {
		// Random times of independent requests. Missed requests are not made up for.
		c.next = max(c.next, t-step.Seconds()) + rand.ExpFloat64()/max(0.05, c.often(t))
		if _, err := c.try(ctx, c.permits); err != nil {
			return err
		}
	}
	return nil
}
