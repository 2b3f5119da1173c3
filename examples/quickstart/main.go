// Quickstart shows the main job of rratelimiter: a limit that many processes share, taken until it runs out, and
// served again once the interval has passed. It runs on an in-memory Redis, or on the one that REDIS_URL names.
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

	limiter := rratelimiter.New(redis).Limiter("quickstart")
	rate := rratelimiter.Rate{Permits: 5, Interval: 2 * time.Second, KeepAlive: time.Minute}
	if err := limiter.SetRate(ctx, rate); err != nil {
		return err
	}
	fmt.Printf("The limiter %q allows %d permits in any %v, for everybody who opens it on this Redis.\n\n", limiter.Name(), rate.Permits, rate.Interval)

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
	say("... and is served as the oldest grants leave the window")

	enough, err := limiter.TryAcquireWithin(ctx, 5, 100*time.Millisecond)
	if err != nil {
		return err
	}
	say("5 permits within 100ms: %v, which it knows at once", enough)
	return nil
}

// connect opens the Redis of REDIS_URL, or one in memory.
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
		fmt.Printf("On the Redis at %s.\n", url)
		return redis, redis.Close, nil
	}
	server, err := miniredis.Run()
	if err != nil {
		return nil, nil, err
	}
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		return nil, nil, err
	}
	fmt.Println("On a Redis in memory; REDIS_URL=redis://localhost:6379 takes a real one.")
	return redis, func() { redis.Close(); server.Close() }, nil
}
