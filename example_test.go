package rratelimiter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// connect opens an in-memory Redis, in place of
//
//	rratelimiter.Connect(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
var connect = redistest.Example

// Three permits a minute, for Go and Java programs together.
func Example() {
	redis := connect()

	limiter := rratelimiter.New(redis).Limiter("paid-api", // redisson.getRateLimiter("paid-api") in Java
		rratelimiter.InitialRate(rratelimiter.Rate{Permits: 3, Interval: time.Minute}))
	for range 4 {
		fmt.Println(limiter.TryAcquire(context.Background(), 1)) // never waits; Acquire waits until permits are free
	}
	// Output:
	// true <nil>
	// true <nil>
	// true <nil>
	// false <nil>
}

// A log shows that Redis had lost the rate, or that a limiter is new.
func ExampleInitialRate() {
	redis := connect()
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))

	observer := &rratelimiter.Observer{RedisCall: func(_ context.Context, c rratelimiter.RedisCallInfo) {
		if c.Initial {
			slog.Warn("a rate was missing in Redis and has been set", "limiter", c.Name)
		}
	}}
	client := rratelimiter.New(redis, rratelimiter.WithObserver(observer))
	rate := rratelimiter.Rate{Permits: 5, Interval: time.Minute}
	limiter := client.Limiter("paid-api", rratelimiter.InitialRate(rate))
	for range 2 {
		fmt.Println(limiter.TryAcquire(context.Background(), 1))
	}
	// Output:
	// level=WARN msg="a rate was missing in Redis and has been set" limiter=paid-api
	// true <nil>
	// true <nil>
}

func ExampleLimiter_Take() {
	redis := connect()
	ctx := context.Background()

	rate := rratelimiter.Rate{Permits: 5, Interval: time.Minute, KeepAlive: time.Hour}
	limiter := rratelimiter.New(redis).Limiter("logins:{alice}", rratelimiter.InitialRate(rate))
	for _, permits := range []int64{5, 1} {
		decision, err := limiter.Take(ctx, permits)
		if err != nil {
			panic(err)
		}
		fmt.Println(decision.Allowed, decision.Remaining, "of", decision.Limit, decision.RetryAfter.Round(time.Minute))
	}
	// Output:
	// true 0 of 5 0s
	// false 0 of 5 1m0s
}

// A worker takes as many permits as are free, and works on as many items.
func ExampleLimiter_TakeUpTo() {
	redis := connect()
	ctx := context.Background()

	limiter := rratelimiter.New(redis).Limiter("emails",
		rratelimiter.InitialRate(rratelimiter.Rate{Permits: 100, Interval: time.Hour}))
	for range 3 {
		batch, decision, err := limiter.TakeUpTo(ctx, 60)
		if err != nil {
			panic(err)
		}
		fmt.Println(batch, decision.Remaining)
	}
	// Output:
	// 60 40
	// 40 0
	// 0 0
}

func ExampleLimiter_Acquire() {
	redis := connect()

	limiter := rratelimiter.New(redis).Limiter("batch",
		rratelimiter.InitialRate(rratelimiter.Rate{Permits: 1, Interval: time.Hour}))
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
	redis := connect()
	ctx := context.Background()

	limiter := rratelimiter.New(redis).Limiter("quota",
		rratelimiter.InitialRate(rratelimiter.Rate{Permits: 10, Interval: time.Hour}))
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

func ExampleWithObserver() {
	redis := connect()
	ctx := context.Background()

	client := rratelimiter.New(redis, rratelimiter.WithObserver(&rratelimiter.Observer{
		Decision: func(_ context.Context, d rratelimiter.DecisionInfo) {
			fmt.Printf("%d of %s: granted %v by %s\n", d.Permits, d.Name, d.Granted, d.Source)
		},
		RedisCall: func(_ context.Context, c rratelimiter.RedisCallInfo) {
			fmt.Printf("a call with %d request for %d permits: %v\n", c.Requests, c.Permits, c.Err)
		},
		Waiting: func(_ context.Context, w rratelimiter.WaitingInfo) {
			fmt.Printf("waiting: %+d\n", w.Change)
		},
	}))
	limiter := client.Limiter("mail", rratelimiter.InitialRate(rratelimiter.Rate{Permits: 10, Interval: time.Hour}))
	if _, err := limiter.TryAcquire(ctx, 4); err != nil {
		panic(err)
	}
	if err := limiter.Acquire(ctx, 2); err != nil {
		panic(err)
	}
	// Output:
	// a call with 1 request for 4 permits: <nil>
	// 4 of mail: granted true by redis
	// waiting: +1
	// a call with 1 request for 2 permits: <nil>
	// waiting: -1
	// 2 of mail: granted true by redis
}

// A request waits for a permit, but not longer than its caller does.
func ExampleLimiter_TryAcquireWithin() {
	redis := connect()
	ctx := context.Background()
	limiter := rratelimiter.New(redis).Limiter("paid-api",
		rratelimiter.InitialRate(rratelimiter.Rate{Permits: 3, Interval: time.Minute}))

	for range 4 {
		ok, err := limiter.TryAcquireWithin(ctx, 1, 500*time.Millisecond)
		fmt.Println(ok, err) // the last one at once: no permit is free within the timeout
	}
	// Output:
	// true <nil>
	// true <nil>
	// true <nil>
	// false <nil>
}

// A caller that does not wait long enough learns when its permit comes free.
func ExampleLimiter_TakeWithin() {
	redis := connect()
	ctx := context.Background()
	limiter := rratelimiter.New(redis).Limiter("paid-api",
		rratelimiter.InitialRate(rratelimiter.Rate{Permits: 3, Interval: time.Minute}))

	for _, permits := range []int64{3, 1} {
		decision, err := limiter.TakeWithin(ctx, permits, 500*time.Millisecond)
		if err != nil {
			panic(err)
		}
		fmt.Println(decision.Allowed, decision.Remaining, "left, retry after", decision.RetryAfter.Round(time.Minute))
	}
	// Output:
	// true 0 left, retry after 0s
	// false 0 left, retry after 1m0s
}

// Permits of a call that was not made return at once.
func ExampleLimiter_Release() {
	redis := connect()
	ctx := context.Background()
	limiter := rratelimiter.New(redis).Limiter("paid-api",
		rratelimiter.InitialRate(rratelimiter.Rate{Permits: 3, Interval: time.Minute}))

	if err := limiter.Acquire(ctx, 3); err != nil {
		panic(err)
	}
	if err := limiter.Release(ctx, 2); err != nil {
		panic(err)
	}
	free, err := limiter.AvailablePermits(ctx)
	fmt.Println(free, err)
	// Output: 2 <nil>
}

// A busy program takes permits in advance. Flush returns those that it has not used when it ends.
func ExampleWithPrefetch() {
	redis := connect()
	ctx := context.Background()

	client := rratelimiter.New(redis, rratelimiter.WithPrefetch(100*time.Millisecond))
	limiter := client.Limiter("events",
		rratelimiter.InitialRate(rratelimiter.Rate{Permits: 1000, Interval: time.Minute}))
	for range 100 {
		if ok, err := limiter.TryAcquire(ctx, 1); err != nil || !ok {
			panic(err)
		}
	}
	if err := client.Flush(ctx); err != nil {
		panic(err)
	}
	free, err := limiter.AvailablePermits(ctx)
	fmt.Println(free, err)
	// Output: 900 <nil>
}

// A limiter that Redis cannot read names the key and the value.
func ExampleStateError() {
	redis := connect()
	ctx := context.Background()
	if err := redis.Do(ctx, redis.B().Set().Key("paid-api").Value("oops").Build()).Error(); err != nil {
		panic(err)
	}

	_, err := rratelimiter.New(redis).Limiter("paid-api").TryAcquire(ctx, 1)
	var state *rratelimiter.StateError
	if errors.As(err, &state) {
		fmt.Println(state.Key, state.Value)
	}
	// Output: paid-api string
}
