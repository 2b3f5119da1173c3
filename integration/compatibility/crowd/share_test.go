package crowd_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// The seconds of a run in which Java's threads are alone, and then share the limiter.
const (
	aloneSeconds  = 4
	sharedSeconds = 7
)

// Threads in Java and callers in Go wait for permits of one limiter. Permits return in bursts, and
// each side takes what is free when it asks. Neither side starves: it has at least a tenth.
func TestShare_GoAndJavaWait_NeitherStarves(t *testing.T) {
	server := servers.Single(t)
	jvm := oracle.Start(t, "4.7.0", oracle.Single(server.Addr()))
	redis := servers.Connect(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}})
	for _, test := range []struct {
		permits  int64
		interval time.Duration
		goes     int // callers in Go
		javas    int // threads in Java
	}{
		{20, time.Second, 6, 6},
		{20, time.Second, 1, 20},
		{1, 100 * time.Millisecond, 4, 4},
		{100, time.Second, 30, 30},
	} {
		name := fmt.Sprintf("%d per %v, %d in Go, %d in Java", test.permits, test.interval, test.goes, test.javas)
		t.Run(name, func(t *testing.T) {
			limiter := rratelimiter.New(redis).Limiter(name)
			require.NoError(t, limiter.SetRate(t.Context(),
				rratelimiter.Rate{Permits: test.permits, Interval: test.interval}))
			begin := time.Now()
			var waits sync.WaitGroup
			goBook, javaBook := ledger.New(error.Error), ledger.New(error.Error)
			waits.Go(func() {
				got, err := jvm.Limiter(name).Crowd(t.Context(), oracle.Crowd{Threads: test.javas, Permits: 1,
					Duration: (aloneSeconds + sharedSeconds) * time.Second, AcquireTimeout: 2 * time.Second})
				assert.NoError(t, err)
				got.Book(javaBook)
			})
			for range test.goes {
				waits.Go(func() { waitInGo(t.Context(), limiter, begin, goBook) })
			}
			waits.Wait()

			goGrants, javaGrants := bySecond(begin, goBook), bySecond(begin, javaBook)
			shared := sum(goGrants[aloneSeconds:]) + sum(javaGrants[aloneSeconds:])
			t.Logf("| %s | %d | %d | %d | %d of %d |", name, javaGrants[:aloneSeconds], goGrants[aloneSeconds:],
				javaGrants[aloneSeconds:], sum(goGrants[aloneSeconds:]), shared)
			assert.GreaterOrEqual(t, 10*sum(goGrants[aloneSeconds:]), shared, "permits of Go")
			assert.GreaterOrEqual(t, 10*sum(javaGrants[aloneSeconds:]), shared, "permits of Java")
			rate := test.permits * int64(time.Second/test.interval)
			assert.Greater(t, 10*shared, 7*rate*sharedSeconds, "permits of both")
			assert.LessOrEqual(t, ledger.Worst(append(goBook.Grants(), javaBook.Grants()...), test.interval).Permits,
				test.permits)
		})
	}
}

// waitInGo calls Acquire in a loop, in the shared seconds.
func waitInGo(ctx context.Context, l *rratelimiter.Limiter, begin time.Time, book *ledger.Ledger) {
	time.Sleep(time.Until(begin.Add(aloneSeconds * time.Second)))
	ctx, cancel := context.WithDeadline(ctx, begin.Add((aloneSeconds+sharedSeconds)*time.Second))
	defer cancel()
	for ctx.Err() == nil {
		_, _ = book.Time("go", 1, func() (bool, error) {
			err := l.Acquire(ctx, 1)
			return err == nil, nil
		})
	}
}

// bySecond returns how many permits were granted in each second of a run.
func bySecond(begin time.Time, book *ledger.Ledger) []int64 {
	seconds := make([]int64, aloneSeconds+sharedSeconds)
	for _, g := range book.Grants() {
		if second := int(g.End.Sub(begin) / time.Second); second < len(seconds) {
			seconds[second] += g.Permits
		}
	}
	return seconds
}

func sum(seconds []int64) (sum int64) {
	for _, n := range seconds {
		sum += n
	}
	return sum
}
