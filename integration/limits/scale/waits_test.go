// Package scale_test tests very many limiters, and very many callers that wait for one limiter.
package scale_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/leaks"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

const (
	name     = "queue"
	rate     = 500
	interval = 500 * time.Millisecond
)

// 5,000 goroutines wait in Acquire and TryAcquireWithin for the time in WAITS, each call with a
// random timeout or cancelled at a random time. Each returns in time, permits of cancelled callers
// are released, and nothing remains of any caller.
func TestAcquire_ImpatientCallers_ReturnInTime(t *testing.T) {
	callers, length := 5000, env.Duration("WAITS", 4*time.Second)
	server := servers.Single(t)
	goroutines := runtime.NumGoroutine()
	client := server.Client(t)
	c := rratelimiter.New(client)
	// The Redis client and the runtime allocate their memory for so many goroutines before the
	// measurement.
	crowd(t, c.Limiter("before"), callers, 500*time.Millisecond)
	held := leaks.Heap()

	limiter := c.Limiter(name)
	require.NoError(t, limiter.SetRate(t.Context(), rratelimiter.Rate{Permits: rate, Interval: interval}))
	endAudit := state.Audit(t, client, name, rate)
	stalled := machine()
	books, late := crowd(t, limiter, callers, length)
	stall, stood := stalled()
	// Permits of cancelled callers are released first.
	left := leaks.OfLimiters(10 * time.Second)
	endAudit()
	time.Sleep(interval)
	free, err := limiter.AvailablePermits(t.Context())
	require.NoError(t, err)
	granted, err := limiter.TryAcquire(t.Context(), rate)
	require.NoError(t, err)
	require.True(t, granted, "all permits are free")

	// All permits are free at the start, and each interval brings as many again while the callers
	// want them. The last calls end after the time.
	wanted, booked := rate*windows(length), books.Permits()
	share := 100 * float64(booked) / float64(wanted)
	could := 100 * float64(length-stood) / float64(length) // a stalled process makes no calls
	slices.Sort(late)
	at := func(share float64) time.Duration {
		return late[int(share*float64(len(late)-1))].Round(10 * time.Microsecond)
	}
	figures := books.Figures(fmt.Sprintf("%d callers, %v", callers, length), rate, interval, rate-free, left)
	unclassified := books.Unclassified()
	p99 := at(0.99)
	t.Logf("%v\nthe %d calls outlived their callers' time or interest by %v at the median, %v at p99, %v at most, "+
		"a timer of the test's own by %v at most and %v in all\n%.1f%% of the permits of that time were granted to "+
		"callers that still wanted them",
		figures, len(late), at(0.5), p99, at(1), stall.Round(10*time.Microsecond), stood.Round(time.Millisecond), share)

	books, late = nil, nil
	more := leaks.Heap() - held
	t.Logf("the process holds %d bytes more than before", more)
	client.Close()

	require.Zero(t, figures.Missing)
	require.LessOrEqual(t, figures.Worst, figures.Rate)
	require.Greater(t, share, 0.6*could, "permits were free while callers waited")
	require.Empty(t, unclassified)
	require.Less(t, p99, time.Second+stood)
	require.Zero(t, left)
	require.Less(t, more, int64(2<<20), "memory of the name or its callers")
	require.Zero(t, leaks.Goroutines(goroutines, 10*time.Second))
}

// windows returns how many windows of an interval begin in a time. Each holds at most the rate.
func windows(d time.Duration) int64 { return int64((d + interval - 1) / interval) }

// machine measures how late a timer ends here, at most and in all, until stalled is called. No caller
// can be faster.
func machine() (stalled func() (most, all time.Duration)) {
	stop, end := make(chan struct{}), make(chan struct{})
	var most, all time.Duration
	go func() {
		defer close(end)
		const tick = 10 * time.Millisecond
		for {
			begun := time.Now()
			select {
			case <-time.After(tick):
				late := time.Since(begun) - tick
				most, all = max(most, late), all+late
			case <-stop:
				return
			}
		}
	}()
	return func() (time.Duration, time.Duration) {
		close(stop)
		<-end
		return most, all
	}
}

// crowd runs the callers for a time, and returns their ledger and the delay of each call.
func crowd(t *testing.T, limiter *rratelimiter.Limiter, callers int, length time.Duration) (*ledger.Ledger,
	[]time.Duration) {
	t.Helper()
	require.NoError(t, limiter.SetRate(t.Context(), rratelimiter.Rate{Permits: rate, Interval: interval}))
	books, late := ledger.New(classify), make([][]time.Duration, callers)
	stop := time.Now().Add(length)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 0))
			for time.Now().Before(stop) {
				late[i] = append(late[i], wait(books, limiter, random))
			}
		})
	}
	wg.Wait()
	return books, slices.Concat(late...)
}

// wait makes one call and returns how long it continued after its end.
func wait(books *ledger.Ledger, limiter *rratelimiter.Limiter, random *rand.Rand) time.Duration {
	permits := 1 + random.Int64N(3)
	ends := time.Now().Add(10*time.Millisecond + time.Duration(random.Int64N(int64(2*time.Second))))
	ctx, cancel := context.WithCancel(context.Background())
	var timeout time.Duration
	switch random.IntN(4) {
	case 0, 1:
		ctx, cancel = context.WithDeadline(context.Background(), ends)
	case 2:
		defer time.AfterFunc(time.Until(ends), cancel).Stop()
	default:
		timeout = time.Until(ends)
	}
	defer cancel()
	// A call whose deadline is unreachable ends at once, and its caller calls again later.
	granted, err := books.Time("go", permits, func() (bool, error) {
		if timeout > 0 {
			return limiter.TryAcquireWithin(ctx, permits, timeout)
		}
		err := limiter.Acquire(ctx, permits)
		return err == nil, err
	})
	late := max(0, time.Since(ends))
	if err != nil || !granted {
		time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
	}
	return late
}

func classify(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), name):
		return "unreachable"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline"
	}
	return ""
}
