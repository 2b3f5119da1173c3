package limit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Which of several policies denies a request?
func ExampleLimiter_TakeEach() {
	client := connect()

	api := limit.New(client, "api",
		limit.FixedWindow{Permits: 2, Interval: time.Minute},
		limit.Calendar{Permits: 1000, Unit: limit.Month})
	for range 3 {
		each, err := api.TakeEach(context.Background(), 1)
		if err != nil {
			panic(err)
		}
		fmt.Println("minute:", each[0].Allowed, each[0].Remaining, "month:", each[1].Allowed, each[1].Remaining)
	}
	// Output:
	// minute: true 1 month: true 999
	// minute: true 0 month: true 998
	// minute: false 0 month: true 998
}

// Peek shows the quota without taking from it.
func ExampleLimiter_Peek() {
	client := connect()
	ctx := context.Background()

	quota := limit.New(client, "quota", limit.SlidingWindow{Permits: 10, Interval: time.Hour})
	if _, err := quota.TryAcquire(ctx, 3); err != nil {
		panic(err)
	}
	for range 2 {
		now, err := quota.Peek(ctx)
		if err != nil {
			panic(err)
		}
		fmt.Println(now[0].Remaining, "of", now[0].Limit)
	}
	// Output:
	// 7 of 10
	// 7 of 10
}

// Permits of work that failed are released.
func ExampleLimiter_Release() {
	client := connect()
	ctx := context.Background()
	convert := func() error { return errors.New("the file is damaged") }

	conversions := limit.New(client, "conversions", limit.SlidingLog{Permits: 10, Interval: time.Hour})
	if ok, err := conversions.TryAcquire(ctx, 1); err != nil || !ok {
		panic("no conversion is left")
	}
	if convert() != nil {
		if err := conversions.Release(ctx, 1); err != nil {
			panic(err)
		}
	}
	d, err := conversions.Take(ctx, 1)
	fmt.Println(d.Remaining, err)
	_, err = conversions.Take(ctx, 11)
	fmt.Println(errors.Is(err, rratelimiter.ErrPermitsExceedRate))
	// Output:
	// 9 <nil>
	// true
}
