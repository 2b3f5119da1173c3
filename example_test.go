package rratelimiter_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
)

// connect opens an in-memory Redis, in place of
//
//	rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
func connect() (rueidis.Client, func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		panic(err)
	}
	return redis, func() { redis.Close(); server.Close() }
}

// The lines of the README.
func quota(ctx context.Context, redis rueidis.Client) error {
	limiter := rratelimiter.New(redis).Limiter("paid-api") // the same limiter as redisson.getRateLimiter("paid-api")
	if _, err := limiter.TrySetRate(ctx, rratelimiter.Rate{Permits: 3, Interval: time.Minute}); err != nil {
		return err
	}
	for range 4 {
		allowed, err := limiter.TryAcquire(ctx, 1) // never waits; Acquire waits until permits are free
		if err != nil {
			return err
		}
		fmt.Println(allowed)
	}
	return nil
}

func Example() {
	redis, closeRedis := connect()
	defer closeRedis()
	if err := quota(context.Background(), redis); err != nil {
		panic(err)
	}
	// Output:
	// true
	// true
	// true
	// false
}

func ExampleLimiter_Take() {
	redis, closeRedis := connect()
	defer closeRedis()
	ctx := context.Background()

	limiter := rratelimiter.New(redis).Limiter("logins:{alice}")
	rate := rratelimiter.Rate{Permits: 5, Interval: time.Minute, KeepAlive: time.Hour}
	if err := limiter.SetRate(ctx, rate); err != nil {
		panic(err)
	}
	decision, err := limiter.Take(ctx, 5)
	if err != nil {
		panic(err)
	}
	fmt.Println(decision.Allowed, decision.Remaining, "of", decision.Limit)
	decision, err = limiter.Take(ctx, 1)
	if err != nil {
		panic(err)
	}
	fmt.Println(decision.Allowed, "retry after", decision.RetryAfter.Round(time.Minute))
	// Output:
	// true 0 of 5
	// false retry after 1m0s
}

func ExampleLimiter_Acquire() {
	redis, closeRedis := connect()
	defer closeRedis()

	limiter := rratelimiter.New(redis).Limiter("batch")
	if err := limiter.SetRate(context.Background(), rratelimiter.Rate{Permits: 1, Interval: time.Hour}); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(limiter.Acquire(ctx, 1))
	// The next permit is an hour away, and the context has a minute: that fails at once.
	fmt.Println(errors.Is(limiter.Acquire(ctx, 1), context.DeadlineExceeded))
	// Output:
	// <nil>
	// true
}

func ExampleLimiter_UpdateRate() {
	redis, closeRedis := connect()
	defer closeRedis()
	ctx := context.Background()

	limiter := rratelimiter.New(redis).Limiter("quota")
	if err := limiter.SetRate(ctx, rratelimiter.Rate{Permits: 10, Interval: time.Hour}); err != nil {
		panic(err)
	}
	if err := limiter.Acquire(ctx, 8); err != nil {
		panic(err)
	}
	updated, err := limiter.UpdateRate(ctx, rratelimiter.Rate{Permits: 20, Interval: time.Hour}, rratelimiter.KeepState())
	if err != nil {
		panic(err)
	}
	free, err := limiter.AvailablePermits(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(updated, free)
	// Output: true 12
}
