package scale_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/leaks"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// NAMES limiters are created with a KeepAlive and used once. The test measures their memory. Every key
// expires by then, and the process never kept anything per name.
func TestLimiter_ManyNames_LeaveNothing(t *testing.T) {
	count := int(env.Number("NAMES", 15_000))
	server := servers.Single(t)
	goroutines := runtime.NumGoroutine()
	client := server.Client(t)
	c := rratelimiter.New(client)

	const keepAlive = time.Hour
	open(t, c, "trial", 4000, keepAlive) // for which buffers and pools grow
	require.NoError(t, client.Do(t.Context(), client.B().Flushall().Build()).Error())

	redisBefore, heapBefore := server.Memory(t), leaks.Heap()
	begun := time.Now()
	open(t, c, "user", count, keepAlive)
	took := time.Since(begun)
	require.Equal(t, int64(3*count), server.Keys(t), "a configuration, a value and a set each")
	redisAfter, heapAfter := server.Memory(t), leaks.Heap()
	require.Zero(t, leaks.OfLimiters(10*time.Second), "goroutines of names")
	require.Equal(t, int64(3*count), server.Expiring(t), "keys that expire")

	// The pace decides how much a pool of buffers holds. From a million names on, one byte per name
	// would be more.
	const slack = 1 << 20
	t.Logf(`
| limiters | made and used in | Redis, bytes a limiter | process, bytes a limiter |
| -------: | ---------------: | ---------------------: | -----------------------: |
| %d | %v | %d | %.2f |`,
		count, took.Round(10*time.Millisecond), (redisAfter-redisBefore)/int64(count),
		float64(heapAfter-heapBefore)/float64(count))
	require.Less(t, heapAfter-heapBefore, int64(slack), "memory of the process for %d names", count)

	client.Close()
	require.Zero(t, leaks.Goroutines(goroutines, 10*time.Second))
}

// open creates limiters and takes one permit of each.
func open(t *testing.T, c *rratelimiter.Client, prefix string, count int, keepAlive time.Duration) {
	t.Helper()
	const workers = 64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < count; i += workers {
				if !assert.NoError(t, use(t.Context(), c.Limiter(fmt.Sprintf("%s:%d", prefix, i)), keepAlive)) {
					return
				}
			}
		})
	}
	wg.Wait()
}

func use(ctx context.Context, l *rratelimiter.Limiter, keepAlive time.Duration) error {
	set, err := l.TrySetRate(ctx, rratelimiter.Rate{Permits: 10, Interval: time.Second, KeepAlive: keepAlive})
	if err != nil {
		return err
	}
	granted, err := l.TryAcquire(ctx, 1)
	if err == nil && (!set || !granted) {
		err = fmt.Errorf("%s: set %v, granted %v", l.Name(), set, granted)
	}
	return err
}
