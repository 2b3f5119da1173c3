package limit_test

import (
	"context"
	"fmt"
	"time"

	"github.com/rratelimiter/rratelimiter/limit"
)

// Mails leave one after another, two a minute. Each program may schedule its mail for the reserved
// time.
func ExampleLimiter_Reserve() {
	client := connect()
	ctx := context.Background()

	mails := limit.New(client, "mails", limit.LeakyBucket{Capacity: 100, Leak: 2, Interval: time.Minute})
	for range 3 {
		r, err := mails.Reserve(ctx, 1)
		if err != nil {
			panic(err)
		}
		fmt.Println("send in", r.Delay().Round(time.Second))
	}
	// Output:
	// send in 0s
	// send in 30s
	// send in 1m0s
}

// A mail that is not sent returns its permits, and the next one leaves earlier.
func ExampleReservation_Cancel() {
	client := connect()
	ctx := context.Background()

	mails := limit.New(client, "mails", limit.TokenBucket{Capacity: 1, Refill: 2, Interval: time.Minute})
	for range 3 {
		r, err := mails.Reserve(ctx, 1)
		if err != nil {
			panic(err)
		}
		fmt.Println(r.Delay().Round(time.Second))
		if r.Delay() > 0 {
			if err := r.Cancel(ctx); err != nil {
				panic(err)
			}
		}
	}
	// Output:
	// 0s
	// 30s
	// 30s
}
