// Quickstart takes permits of a shared limiter until it is empty, and waits until they return. It runs on
// an in-memory Redis, or on the Redis of REDIS_URL.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	redis, stop, err := connect()
	if err != nil {
		return err
	}
	defer stop()

	rate := rratelimiter.Rate{Permits: 5, Interval: 2 * time.Second, KeepAlive: time.Minute}
	limiter := rratelimiter.New(redis).Limiter("quickstart", rratelimiter.InitialRate(rate))
	fmt.Printf("The limiter %q grants %d permits in any %v to all programs on this Redis.\n\n",
		limiter.Name(), rate.Permits, rate.Interval)

	start := time.Now()
	say := func(format string, args ...any) {
		fmt.Printf("%5.2fs  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
	}
	for {
		decision, err := limiter.Take(ctx, 1)
		if err != nil {
			return err
		}
		if !decision.Allowed {
			say("denied: all %d permits are taken, retry after %v", decision.Limit, decision.RetryAfter)
			break
		}
		say("granted, %d of %d left", decision.Remaining, decision.Limit)
	}

	say("Acquire waits for the next permit ...")
	if err := limiter.Acquire(ctx, 1); err != nil {
		return err
	}
	say("... and gets it when the oldest grants expire")

	enough, err := limiter.TryAcquireWithin(ctx, 5, 100*time.Millisecond)
	if err != nil {
		return err
	}
	say("5 permits within 100ms: %v, without a wait, since they cannot return in time", enough)
	return nil
}

// connect opens the Redis of REDIS_URL, or an in-memory one.
func connect() (rueidis.Client, func(), error) {
	if url := os.Getenv("REDIS_URL"); url != "" {
		option, err := rueidis.ParseURL(url)
		if err != nil {
			return nil, nil, fmt.Errorf("REDIS_URL %q: %w", url, err)
		}
		redis, err := rueidis.NewClient(option)
		if err != nil {
			return nil, nil, fmt.Errorf("no Redis at REDIS_URL %q: %w", url, err)
		}
		fmt.Printf("Redis: %s\n", url)
		return redis, redis.Close, nil
	}
	server, err := miniredis.Run()
	if err != nil {
		return nil, nil, err
	}
	server.ClockTTL(true) // its keys expire
	redis, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true,
	})
	if err != nil {
		return nil, nil, err
	}
	fmt.Println("Redis: in memory; REDIS_URL=redis://localhost:6379 names a real one")
	return redis, func() { redis.Close(); server.Close() }, nil
}
