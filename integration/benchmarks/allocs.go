package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
)

// allocation is the memory that one lone TryAcquire allocates in this process, in the client
// library's goroutines too.
type allocation struct {
	answer string
	count  float64
}

type allocations []allocation

const allocationCalls = 5000

// allocations counts the allocations of a granted and of a denied call.
func (b *bench) allocations(ctx context.Context) (found allocations, err error) {
	if err := b.server.clear(ctx); err != nil {
		return nil, err
	}
	redis, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{b.redis.Addr()}, ForceSingleClient: true, DisableCache: true,
	})
	if err != nil {
		return nil, err
	}
	defer redis.Close()
	for _, granting := range []bool{true, false} {
		one := allocation{answer: "denied"}
		rate := scarce
		if granting {
			one.answer, rate = "granted", generous
		}
		if one.count, err = allocationsOf(ctx, redis, one.answer, rate, granting); err != nil {
			return nil, fmt.Errorf("allocations: %w", err)
		}
		found = append(found, one)
	}
	return found, nil
}

func allocationsOf(ctx context.Context, redis rueidis.Client, name string, rate limit, granting bool) (float64, error) {
	limiter := rratelimiter.New(redis).Limiter(name)
	if err := limiter.SetRate(ctx, rratelimiter.Rate{Permits: rate.permits, Interval: rate.interval}); err != nil {
		return 0, err
	}
	if !granting {
		if err := limiter.Acquire(ctx, rate.permits); err != nil {
			return 0, err
		}
	}
	call := func() error {
		granted, err := limiter.TryAcquire(ctx, 1)
		if err == nil && granted != granting {
			err = fmt.Errorf("granted is %v, want %v", granted, granting)
		}
		return err
	}
	for range allocationCalls / 10 {
		if err := call(); err != nil {
			return 0, err
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range allocationCalls {
		if err := call(); err != nil {
			return 0, err
		}
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / allocationCalls, nil
}

func (a allocations) table() string {
	var t strings.Builder
	t.WriteString("| one TryAcquire, alone | allocations |\n| --- | --: |\n")
	for _, one := range a {
		fmt.Fprintf(&t, "| %s | %s |\n", one.answer, short(one.count))
	}
	return t.String()
}

func (a allocations) most() float64 {
	return slices.MaxFunc(a, func(x, y allocation) int { return cmp.Compare(x.count, y.count) }).count
}
