// Package demo simulates programs that use a few limiters of an in-memory Redis, to show watch without a
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

// Where replaces the address of a Redis.
const Where = "demo, an in-memory Redis"

// Names are the names of the limiters.
var Names = []string{"paid-api", "exports", "login:ada"}

// logins is the policy of the last limiter.
var logins = limit.FixedWindow{Permits: 5, Interval: 8 * time.Second}

// Given returns the policies of package limit, whose limits are not in Redis.
func Given() []names.Given {
	given, _ := names.NewGiven(logins) // never fails
	return []names.Given{given}
}

// Simulation has the programs and their Redis.
type Simulation struct {
	Redis   *connect.Redis
	server  *miniredis.Miniredis
	clock   func() time.Time
	began   time.Time
	callers []*caller
}

// caller is one program. It requests permits at random times, with a rate that changes over time.
type caller struct {
	try     func(ctx context.Context, permits int64) (bool, error)
	often   func(t float64) float64 // requests per second, t seconds after the start
	permits int64
	random  *rand.Rand
	next    float64
}

// step is the time step of the simulation.
const step = 50 * time.Millisecond

// Start starts the Redis and sets the rates. It uses the given clock.
func Start(ctx context.Context, clock func() time.Time) (*Simulation, error) {
	server, err := miniredis.Run()
	if err != nil {
		return nil, fmt.Errorf("in-memory Redis: %w", err)
	}
	s := &Simulation{server: server, clock: clock, began: clock()}
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1,
	})
	if err != nil {
		server.Close()
		return nil, err
	}
	s.Redis = &connect.Redis{Client: client, Where: Where}
	if err := s.addCallers(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// addCallers creates the callers.
func (s *Simulation) addCallers(ctx context.Context) error {
	limiters := rratelimiter.New(s.Redis.Client, rratelimiter.WithClock(s.clock))
	api := limiters.Limiter(Names[0])
	if err := api.SetRate(ctx, rratelimiter.Rate{Permits: 100, Interval: 10 * time.Second}); err != nil {
		return err
	}
	for i := range 3 {
		s.add(api.TryAcquire, 1, wave(0.2, 5.5, 19, 0.4*float64(i)))
	}
	exports := limiters.Limiter(Names[1])
	if err := exports.SetRate(ctx, rratelimiter.Rate{Type: rratelimiter.PerClient, Permits: 20,
		Interval: 5 * time.Second}); err != nil {
		return err
	}
	for i, id := range []string{"5f0c9a52-7d1e-4b7a-9a5e-0d6a1c2b3e01", "a83d4e17-22b0-4f63-8c11-7be09d5f6a02",
		"c41b7f60-9e58-4d2c-b0f7-3a1e8d9c4b03"} {
		program := rratelimiter.New(s.Redis.Client, rratelimiter.WithClock(s.clock),
			rratelimiter.WithClientID(uuid.MustParse(id)))
		s.add(program.Limiter(Names[1]).TryAcquire, 2, wave(0.1, 1.6+float64(i), 19, float64(2*i)))
	}
	login := limit.New(limiters, Names[2], logins)
	s.add(login.TryAcquire, 1, wave(0, 2.5, 17, 1))
	return nil
}

func (s *Simulation) add(try func(context.Context, int64) (bool, error), permits int64, often func(float64) float64) {
	s.callers = append(s.callers, &caller{try: try, often: often, permits: permits,
		random: rand.New(rand.NewPCG(7, uint64(len(s.callers))))})
}

// wave returns a function that oscillates between two numbers.
func wave(low, high, seconds, phase float64) func(float64) float64 {
	return func(t float64) float64 { return low + (high-low)*(1-math.Cos(2*math.Pi*t/seconds+phase))/2 }
}

// run runs one caller until ctx ends.
func (s *Simulation) run(ctx context.Context, who *caller) error {
	ticker := time.NewTicker(step)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := s.work(ctx, who); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// work makes the requests of a caller in one step.
func (s *Simulation) work(ctx context.Context, who *caller) error {
	t := s.clock().Sub(s.began).Seconds()
	for who.next <= t {
		// Random times of independent requests. Missed requests are not made up for.
		who.next = max(who.next, t-step.Seconds()) + who.random.ExpFloat64()/max(0.05, who.often(t))
		if _, err := who.try(ctx, who.permits); err != nil {
			return err
		}
	}
	return nil
}

// Close stops the Redis.
func (s *Simulation) Close() {
	s.Redis.Close()
	s.server.Close()
}
