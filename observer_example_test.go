package rratelimiter_test

import (
	"context"
	"fmt"
	"time"

	"github.com/rratelimiter/rratelimiter"
)

func ExampleWithObserver() {
	redis, closeRedis := connect()
	defer closeRedis()
	ctx := context.Background()

	client := rratelimiter.New(redis, rratelimiter.WithObserver(&rratelimiter.Observer{
		Decision: func(_ context.Context, d rratelimiter.DecisionInfo) {
			fmt.Printf("%d of %s: granted %v by %s\n", d.Permits, d.Name, d.Granted, d.Source)
		},
		RedisCall: func(_ context.Context, c rratelimiter.RedisCallInfo) {
			fmt.Printf("a call with %d request for %d permits: %v\n", c.Requests, c.Permits, c.Err)
		},
		Waiting: func(_ context.Context, w rratelimiter.WaitingInfo) {
			fmt.Println("waiting:", w.Length)
		},
	}))
	limiter := client.Limiter("mail")
	if err := limiter.SetRate(ctx, rratelimiter.Rate{Permits: 10, Interval: time.Hour}); err != nil {
		panic(err)
	}
	if _, err := limiter.TryAcquire(ctx, 4); err != nil {
		panic(err)
	}
	if err := limiter.Acquire(ctx, 2); err != nil {
		panic(err)
	}
	// Output:
	// a call with 1 request for 4 permits: <nil>
	// 4 of mail: granted true by redis
	// waiting: 1
	// a call with 1 request for 2 permits: <nil>
	// waiting: 0
	// 2 of mail: granted true by redis
}
