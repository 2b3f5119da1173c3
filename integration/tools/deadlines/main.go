// Command deadlines measures how many requests a Closed middleware refuses by its deadline while
// Redis is healthy and the host is busy. It chose httplimit.DefaultDeadline.
//
//	go run ./integration/tools/deadlines
//
// It starts a Redis of its own, and four busy goroutines for each core. They run in other processes
// of the host, and for a second table in the process of the middleware. Requests of 16 callers pass
// a middleware of each deadline in turn.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

var deadlines = []time.Duration{
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second,
}

const (
	callers = 16
	pause   = 5 * time.Millisecond // of a caller between its requests
)

// busyEnv makes this program a busy process.
const busyEnv = "RRATELIMITER_BUSY"

func main() {
	if os.Getenv(busyEnv) != "" {
		go spin(new(atomic.Bool))
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent ends
		return
	}
	busy := flag.Int("busy", 4, "busy goroutines for each core")
	rounds := flag.Int("rounds", 6, "rounds; in each every deadline has its turn")
	turn := flag.Duration("turn", 10*time.Second, "how long a deadline is measured in each round")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *busy, *rounds, *turn)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, busy, rounds int, turn time.Duration) (err error) {
	redis, err := servers.OpenSingle(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, redis.Close()) }()
	conn, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis.Addr()}})
	if err != nil {
		return err
	}
	defer conn.Close()
	client := rratelimiter.New(conn)

	n := busy * runtime.GOMAXPROCS(0)
	for _, where := range []struct {
		name  string
		start func(n int) (stop func(), err error)
	}{{"in processes of their own", startProcesses}, {"in the process of the middleware", startGoroutines}} {
		stop, err := where.start(n)
		if err != nil {
			return err
		}
		all := make([]figures, len(deadlines))
		for range rounds {
			for i, deadline := range deadlines {
				measure(ctx, client, deadline, turn, &all[i])
			}
		}
		stop()
		if err := ctx.Err(); err != nil {
			return err
		}
		fmt.Printf("%d cores, %d busy goroutines %s, %d callers\n\n", runtime.GOMAXPROCS(0), n, where.name, callers)
		fmt.Println("| deadline | requests | refused | outages seen | p50 | p99 | p99.9 | longest |")
		fmt.Println("| --: | --: | --: | --: | --: | --: | --: | --: |")
		for i := range all {
			all[i].print(deadlines[i])
		}
		fmt.Println()
	}
	return nil
}

// startGoroutines starts busy goroutines in this process.
func startGoroutines(n int) (stop func(), err error) {
	var done atomic.Bool
	for range n {
		go spin(&done)
	}
	return func() { done.Store(true) }, nil
}

// startProcesses starts processes with a busy goroutine each. They end with this one.
func startProcesses(n int) (stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var ends []func()
	stop = func() {
		for _, end := range ends {
			end()
		}
	}
	for range n {
		child := exec.Command(self)
		child.Env = append(os.Environ(), busyEnv+"=1", "GOMAXPROCS=1")
		stdin, err := child.StdinPipe()
		if err == nil {
			err = child.Start()
		}
		if err != nil {
			stop()
			return nil, err
		}
		ends = append(ends, func() { _, _ = stdin.Close(), child.Wait() })
	}
	return stop, nil
}

// spin keeps a core busy.
func spin(done *atomic.Bool) {
	for n := 0; !done.Load(); n++ {
		runtime.KeepAlive(n)
	}
}

// figures are the results of one deadline.
type figures struct {
	mu      sync.Mutex
	refused int
	outages int
	took    []time.Duration // of all requests
}

// measure sends requests through a middleware with the deadline.
func measure(ctx context.Context, client *rratelimiter.Client, deadline, turn time.Duration, f *figures) {
	limited := httplimit.Middleware(
		httplimit.Each(client, "web", httplimit.ByIP(), limit.SlidingWindow{Permits: 1 << 40, Interval: time.Second}),
		httplimit.Deadline(deadline),
		httplimit.OnRedisChange(func(up bool, _ error) {
			if !up {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.outages++
			}
		}),
	)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	var all sync.WaitGroup
	end := time.Now().Add(turn)
	for range callers {
		all.Go(func() {
			for time.Now().Before(end) && ctx.Err() == nil {
				w, begin := httptest.NewRecorder(), time.Now()
				limited.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				f.add(w.Code, time.Since(begin))
				time.Sleep(pause)
			}
		})
	}
	all.Wait()
}

func (f *figures) add(status int, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.took = append(f.took, took)
	if status != http.StatusOK {
		f.refused++
	}
}

func (f *figures) print(deadline time.Duration) {
	slices.Sort(f.took)
	n := len(f.took)
	at := func(quantile float64) time.Duration {
		return f.took[min(n-1, int(quantile*float64(n)))].Round(100 * time.Microsecond)
	}
	fmt.Printf("| %v | %d | %d, %.3f%% | %d | %v | %v | %v | %v |\n", deadline, n, f.refused,
		100*float64(f.refused)/float64(cmp.Or(n, 1)), f.outages, at(0.5), at(0.99), at(0.999), at(1))
}
