package fallback_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/fallback"
	"github.com/rratelimiter/rratelimiter/internal/memredis"
	"github.com/rratelimiter/rratelimiter/limit"
)

// connect opens a connection to a Redis in memory.
func connect() rueidis.Client {
	redis, err := memredis.Connect(miniredis.NewMiniRedis())
	if err != nil {
		panic(err)
	}
	return redis
}

// Ten processes share a quota. While Redis is away, each has a tenth of it.
func Example() {
	redis := connect() // rueidis.NewClient
	quota := limit.New(rratelimiter.New(redis), "paid-api",
		limit.TokenBucket{Capacity: 20, Refill: 10, Interval: time.Second})
	limiter := fallback.New(quota, fallback.OnFailure(limit.Local(0.1)))

	from, err := limiter.Acquire(context.Background(), 1)
	fmt.Println(from, err)
	redis.Close() // as if Redis were away
	for range 3 {
		allowed, from, err := limiter.TryAcquire(context.Background(), 1)
		fmt.Println(allowed, from, err)
	}
	// Output:
	// redis <nil>
	// true share <nil>
	// true share <nil>
	// false share <nil>
}

// A limiter for each user. Together they know whether Redis is up.
func ExampleLimiter_With() {
	users := limit.NewKeyed(rratelimiter.New(connect()), "user", limit.FixedWindow{Permits: 100, Interval: time.Hour})
	limiters := fallback.New(nil, fallback.OnFailure(limit.Open))

	allowed, from, err := limiters.With(users.Limiter("alice")).TryAcquire(context.Background(), 1)
	fmt.Println(allowed, from, err)
	// Output: true redis <nil>
}
