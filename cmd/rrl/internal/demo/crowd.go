// Package demo is a Redis in memory with a small crowd of programs on a few limiters, for who wants to see watch without having a
// Redis.
package demo

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/connect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Where is what stands in place of the address of a Redis.
const Where = "demo, a Redis in memory"

// Names are the limiters that the crowd uses.
var Names = []string{"paid-api", "exports", "login:ada"}

// logins is the policy of the last one.
var logins = limit.FixedWindow{Permits: 5, Interval: 8 * time.Second}

// Given is the policies whose permits Redis does not know.
func Given() []names.Given {
	given, _ := names.NewGiven(logins) // which cannot fail
	return []names.Given{given}
}

// Crowd is the programs, and the Redis that they share.
type Crowd struct {
	Redis   *connect.Redis
	server  *miniredis.Miniredis
	clock   func() time.Time
	began   time.Time
	callers []*caller
}

// caller is one program: it asks a limiter for a permit at random moments, more or less often over time.
type caller struct {
	try     func(ctx context.Context, permits int64) (bool, error)
	often   func(t float64) float64 // requests a second, t seconds after the begin
	permits int64
	random  *rand.Rand
	next    float64
}

// step is how often callers think about asking.
const step = 50 * time.Millisecond

// Start starts the Redis and sets the rates. Times are those of the clock.
func Start(ctx context.Context, clock func() time.Time) (*Crowd, error) {
	server, err := miniredis.Run()
	if err != nil {
		return nil, fmt.Errorf("no Redis in memory: %w", err)
	}
	c := &Crowd{server: server, clock: clock, began: clock()}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1})
	if err != nil {
		server.Close()
		return nil, err
	}
	c.Redis = &connect.Redis{Client: client, Where: Where}
	if err := c.hire(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// hire makes the callers.
func (c *Crowd) hire(ctx context.Context) error {
	limiters := rratelimiter.New(c.Redis.Client, rratelimiter.WithClock(c.clock))
	api := limiters.Limiter(Names[0])
	if err := api.SetRate(ctx, rratelimiter.Rate{Permits: 100, Interval: 10 * time.Second}); err != nil {
		return err
	}
	for i := range 3 {
		c.add(api.TryAcquire, 1, wave(0.2, 5.5, 19, 0.4*float64(i)))
	}
	exports := limiters.Limiter(Names[1])
	if err := exports.SetRate(ctx, rratelimiter.Rate{Type: rratelimiter.PerClient, Permits: 20, Interval: 5 * time.Second}); err != nil {
		return err
	}
	for i, id := range []string{"5f0c9a52-7d1e-4b7a-9a5e-0d6a1c2b3e01", "a83d4e17-22b0-4f63-8c11-7be09d5f6a02", "c41b7f60-9e58-4d2c-b0f7-3a1e8d9c4b03"} {
		program := rratelimiter.New(c.Redis.Client, rratelimiter.WithClock(c.clock), rratelimiter.WithClientID(uuid.MustParse(id)))
		c.add(program.Limiter(Names[1]).TryAcquire, 2, wave(0.1, 1.6+float64(i), 19, float64(2*i)))
	}
	login := limit.New(limiters, Names[2], logins)
	c.add(login.TryAcquire, 1, wave(0, 2.5, 17, 1))
	return nil
}

func (c *Crowd) add(try func(context.Context, int64) (bool, error), permits int64, often func(float64) float64) {
	c.callers = append(c.callers, &caller{try: try, often: often, permits: permits, random: rand.New(rand.NewPCG(7, uint64(len(c.callers))))})
}

// wave is a number that goes up and down between two others.
func wave(low, high, seconds, phase float64) func(float64) float64 {
	return func(t float64) float64 { return low + (high-low)*(1-math.Cos(2*math.Pi*t/seconds+phase))/2 }
}

// live lets one caller work until ctx ends.
func (c *Crowd) live(ctx context.Context, who *caller) error {
	ticker := time.NewTicker(step)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := c.work(ctx, who); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// work is what a caller does in one step.
func (c *Crowd) work(ctx context.Context, who *caller) error {
	t := c.clock().Sub(c.began).Seconds()
	for who.next <= t {
		// Moments as they come about where many ask independently of each other; what was missed is not made up for.
		who.next = max(who.next, t-step.Seconds()) + who.random.ExpFloat64()/max(0.05, who.often(t))
		if _, err := who.try(ctx, who.permits); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the Redis.
func (c *Crowd) Close() {
	c.Redis.Close()
	c.server.Close()
}
