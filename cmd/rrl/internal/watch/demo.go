package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/connect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/limit"
)

// where replaces the address of a Redis.
const where = "demo, an in-memory Redis"

// Demo shows programs that use a few limiters of an in-memory Redis until ctx ends or count samples were
// shown; 0 means no limit.
func Demo(ctx context.Context, out io.Writer, every time.Duration, count int, json bool) error {
	server, err := miniredis.Run()
	if err != nil {
		return fmt.Errorf("in-memory Redis: %w", err)
	}
	server.ClockTTL(true) // its keys expire
	defer server.Close()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	callers, err := newCallers(ctx, client)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	for _, c := range callers {
		wg.Go(func() {
			if err := c.run(ctx); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	wg.Go(func() { // keys expire by this clock
		const step = 50 * time.Millisecond
		for sleep(ctx, step) {
			server.FastForward(step)
		}
	})
	given, err := names.NewGiven(logins)
	if err != nil {
		return err
	}
	watcher := &Watcher{
		Reader: &inspect.Reader{Redis: &connect.Redis{Client: client, Where: where}, Now: time.Now},
		Names:  []string{"paid-api", "exports", "login:ada"}, Given: []names.Given{given},
	}
	if err := watcher.Run(ctx, out, where, every, count, json); err != nil {
		return err
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// sleep reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

var logins = limit.FixedWindow{Permits: 5, Interval: 8 * time.Second}

// caller is one program. It requests permits at random times. How many per second oscillates between two
// numbers.
type caller struct {
	try                       func(ctx context.Context, permits int64) (bool, error)
	permits                   int64
	low, high, seconds, phase float64
}

// newCallers sets the rates and returns the programs.
func newCallers(ctx context.Context, redis rueidis.Client) ([]caller, error) {
	client := rratelimiter.New(redis)
	api := client.Limiter("paid-api")
	perClient := rratelimiter.Rate{Type: rratelimiter.PerClient, Permits: 20, Interval: 5 * time.Second}
	err := errors.Join(api.SetRate(ctx, rratelimiter.Rate{Permits: 100, Interval: 10 * time.Second}),
		client.Limiter("exports").SetRate(ctx, perClient))
	all := []caller{{limit.New(client, "login:ada", logins).TryAcquire, 1, 0, 2.5, 17, 1}}
	for i, id := range []string{"5f0c9a52-7d1e-4b7a-9a5e-0d6a1c2b3e01", "a83d4e17-22b0-4f63-8c11-7be09d5f6a02",
		"c41b7f60-9e58-4d2c-b0f7-3a1e8d9c4b03"} {
		exports := rratelimiter.New(redis, rratelimiter.WithClientID(uuid.MustParse(id))).Limiter("exports")
		n := float64(i)
		all = append(all, caller{api.TryAcquire, 1, 0.2, 5.5, 19, 0.4 * n},
			caller{exports.TryAcquire, 2, 0.1, 1.6 + n, 19, 2 * n})
	}
	return all, err
}

func (c caller) run(ctx context.Context) error {
	for began := time.Now(); ; {
		often := c.low + (c.high-c.low)*(1-math.Cos(2*math.Pi*time.Since(began).Seconds()/c.seconds+c.phase))/2
		pause := time.Duration(rand.ExpFloat64() / max(0.05, often) * float64(time.Second))
		if !sleep(ctx, min(pause, time.Second)) {
			return nil
		}
		if pause > time.Second {
			continue // by then there may be more requests
		}
		if _, err := c.try(ctx, c.permits); err != nil {
			return err
		}
	}
}
