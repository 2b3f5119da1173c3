package limit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// connect opens a Client on an in-memory Redis, in place of
//
//	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
//	client := rratelimiter.New(redis)
func connect() *rratelimiter.Client { return rratelimiter.New(redistest.Example()) }

// Log-ins of one user: five a minute, and no more than twenty an hour.
func ExampleNew() {
	client := connect()
	ctx := context.Background()

	logins := limit.New(client, "login:alice",
		limit.FixedWindow{Permits: 5, Interval: time.Minute},
		limit.FixedWindow{Permits: 20, Interval: time.Hour})
	for range 6 {
		d, err := logins.Take(ctx, 1)
		fmt.Println(d.Allowed, d.Remaining, "of", d.Limit, err)
	}
	// Output:
	// true 4 of 5 <nil>
	// true 3 of 5 <nil>
	// true 2 of 5 <nil>
	// true 1 of 5 <nil>
	// true 0 of 5 <nil>
	// false 0 of 5 <nil>
}

// A provider answers 429 with Retry-After: all processes stop until then.
func ExampleLimiter_Pause() {
	client := connect()
	ctx := context.Background()

	api := limit.New(client, "geocoder",
		limit.TokenBucket{Capacity: 20, Refill: 10, Interval: time.Second},
		limit.Pause{Most: time.Hour})
	if err := api.Pause(ctx, 30*time.Second); err != nil {
		panic(err)
	}
	d, err := api.Take(ctx, 1)
	fmt.Println(d.Allowed, d.RetryAfter.Round(time.Second), err)
	// Output:
	// false 30s <nil>
}

// A worker takes a batch of jobs, as many as the quota allows.
func ExampleLimiter_TakeUpTo() {
	client := connect()

	quota := limit.New(client, "mails", limit.Calendar{Permits: 100, Unit: limit.Day})
	for range 3 {
		granted, d, err := quota.TakeUpTo(context.Background(), 60)
		fmt.Println(granted, "granted,", d.Remaining, "left", err)
	}
	// Output:
	// 60 granted, 40 left <nil>
	// 40 granted, 0 left <nil>
	// 0 granted, 0 left <nil>
}

// A limiter for each user.
func ExampleNewKeyed() {
	client := connect()
	ctx := context.Background()

	logins := limit.NewKeyed(client, "login", limit.FixedWindow{Permits: 1, Interval: time.Minute})
	for _, user := range []string{"alice", "alice", "bob"} {
		allowed, err := logins.TryAcquire(ctx, user, 1)
		fmt.Println(user, allowed, err)
	}
	// Output:
	// alice true <nil>
	// alice false <nil>
	// bob true <nil>
}

// Policies from a configuration are checked before the program uses them.
func ExampleValidate() {
	fmt.Println(limit.Validate(limit.FixedWindow{Permits: 5, Interval: time.Minute}))
	fmt.Println(limit.Validate(limit.FixedWindow{Permits: 0, Interval: time.Minute}))
	// Output:
	// <nil>
	// rratelimiter: invalid rate: FixedWindow.Permits is 0, want 1 to 2^53
}

// A tenant's own limit, and the quota of a paid API that all tenants share, with Java programs too.
func ExampleJoin() {
	client := connect()
	ctx := context.Background()

	// redisson.getRateLimiter("{paid-api}") in Java
	quota := client.Limiter("{paid-api}",
		rratelimiter.InitialRate(rratelimiter.Rate{Permits: 100, Interval: time.Minute}))
	tenant := limit.New(client, "{paid-api}:tenant:7", limit.TokenBucket{Capacity: 2, Refill: 1, Interval: time.Second})
	both := limit.Join(tenant, quota)
	for range 3 {
		allowed, err := both.TryAcquire(ctx, 1)
		if err != nil {
			panic(err)
		}
		fmt.Println(allowed)
	}
	left, err := quota.AvailablePermits(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(left, "left of the quota: a refusal by the tenant's limit takes nothing of it")
	// Output:
	// true
	// true
	// false
	// 98 left of the quota: a refusal by the tenant's limit takes nothing of it
}

// The tokens of a model are counted when its answer is known.
func ExampleLimiter_Charge() {
	client := connect()
	ctx := context.Background()

	tokens := limit.New(client, "tokens:alice", limit.TokenBucket{Capacity: 1000, Refill: 1000, Interval: time.Minute})
	if allowed, err := tokens.TryAcquire(ctx, 100); err != nil || !allowed { // the least cost of a request
		panic(err)
	}
	d, err := tokens.Charge(ctx, 1400) // the rest of its cost
	fmt.Println(d.Allowed, d.Remaining, d.RetryAfter.Round(time.Second), err)
	// Output: false 0 30s <nil>
}

// A request to a language model takes a request and an estimate of its tokens, of the budgets of a
// minute and of a day. The answer says what it has cost.
func ExampleTaken() {
	client := connect()
	ctx := context.Background()
	requests := limit.New(client, "{model}:requests", limit.SlidingLog{Permits: 60, Interval: time.Minute})
	minute := limit.New(client, "{model}:minute", limit.TokenBucket{Capacity: 9000, Refill: 9000, Interval: time.Minute})
	day := limit.New(client, "{model}:day", limit.Calendar{Permits: 100_000, Unit: limit.Day})

	ask := func(estimate, used int64) (err error) {
		var taken limit.Taken
		defer func() { err = errors.Join(err, taken.Settle(ctx)) }() // gives all back, if it was not settled before
		if err := taken.Acquire(ctx, 1, requests); err != nil {
			return err
		}
		if err := taken.Acquire(ctx, estimate, minute, day); err != nil {
			return err
		}
		if used < 0 {
			return errors.New("the model failed")
		}
		return taken.Settle(ctx, 1, used)
	}
	for _, used := range []int64{300, 1200, -1} {
		err := ask(800, used)
		left, peekErr := limit.Join(requests, day).Peek(ctx)
		if peekErr != nil {
			panic(peekErr)
		}
		fmt.Println(left[0].Remaining, "requests and", left[1].Remaining, "tokens are left:", err)
	}
	// Output:
	// 59 requests and 99700 tokens are left: <nil>
	// 58 requests and 98500 tokens are left: <nil>
	// 58 requests and 98500 tokens are left: the model failed
}

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
	// Output: 9 <nil>
}
