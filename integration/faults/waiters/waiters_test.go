// Package waiters_test has processes wait for the same limiters, while some of them are killed, stopped or cut off,
// have a wrong clock, or come and go.
//
// WAITERS_LOAD is the duration of the load, by default 8s.
package waiters_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/leaks"
	"github.com/rratelimiter/rratelimiter/integration/tools/proxy"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

// The environment of a process of its own.
const (
	memberEnv = "WAITERS_MEMBER" // the address of its Redis
	clockEnv  = "WAITERS_CLOCK"  // by how much its clock is ahead
	visitsEnv = "WAITERS_VISITS" // if it is set, its Clients come and go
)

const (
	perSecond = 40 // of each limiter
	callers   = 5  // of a process, for each limiter
	away      = 3 * time.Second

	// A round of all callers takes a second, and two processes make up for 48 permits each. Other suites may run: in
	// fake time, TestAcquire_ClientsFail_NoPermitIsIdle has half of it.
	longest = 8 * time.Second
)

var loadTime = env.Duration("WAITERS_LOAD", 8*time.Second)

// TestMain runs the tests, or in a process of its own a member.
func TestMain(m *testing.M) {
	if addr := os.Getenv(memberEnv); addr != "" {
		member(addr)
		return
	}
	os.Exit(leaks.Main(m))
}

var limiters = []string{"FixedWindow", "SlidingLog", "TokenBucket", "Redisson's layout"}

// acquire returns Acquire of a limiter.
func acquire(c *rratelimiter.Client, limiter string) func(ctx context.Context, permits int64) error {
	switch limiter {
	case "FixedWindow":
		return limit.New(c, limiter, limit.FixedWindow{Permits: perSecond / 2, Interval: time.Second / 2}).Acquire
	case "SlidingLog":
		return limit.New(c, limiter, limit.SlidingLog{Permits: perSecond / 2, Interval: time.Second / 2}).Acquire
	case "TokenBucket":
		return limit.New(c, limiter, limit.TokenBucket{Capacity: 1, Refill: perSecond, Interval: time.Second}).Acquire
	}
	return c.Limiter(limiter,
		rratelimiter.InitialRate(rratelimiter.Rate{Permits: perSecond / 2, Interval: time.Second / 2})).Acquire
}

// member waits for permits until its input ends. It writes a line for each: the index of the limiter and for how long
// it waited.
func member(addr string) {
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true,
		DisableCache: true})
	if err != nil {
		panic(err)
	}
	defer redis.Close()
	ahead := env.Duration(clockEnv, 0)
	clock := rratelimiter.WithClock(func() time.Time { return time.Now().Add(ahead) })
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	wait := func(ctx context.Context, c *rratelimiter.Client, callers int) {
		for i, limiter := range limiters {
			acquire := acquire(c, limiter)
			for range callers {
				all.Go(func() {
					for ctx.Err() == nil {
						if from := time.Now(); acquire(ctx, 1) == nil {
							fmt.Println(i, time.Since(from).Nanoseconds())
						} else {
							time.Sleep(20 * time.Millisecond) // the link is cut
						}
					}
				})
			}
		}
	}
	if os.Getenv(visitsEnv) == "" {
		wait(ctx, rratelimiter.New(redis, clock), callers)
	} else {
		all.Go(func() {
			for ctx.Err() == nil {
				visit, leave := context.WithTimeout(ctx, 45*time.Millisecond)
				wait(visit, rratelimiter.New(redis, clock), 2)
				time.Sleep(50 * time.Millisecond)
				leave()
			}
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop()
	all.Wait()
}

// process is a member, and what it has got since a time.
type process struct {
	*exec.Cmd
	since   time.Time
	stdin   io.Closer
	ended   chan struct{}
	granted [4]int
	longest [4]time.Duration // of the waits
}

func launch(t *testing.T, addr string, since time.Time, environ ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0]), since: since, ended: make(chan struct{})}
	p.Env = append(append(os.Environ(), memberEnv+"="+addr), environ...)
	p.Stderr = os.Stderr
	var err error
	p.stdin, err = p.StdinPipe()
	require.NoError(t, err)
	stdout, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	t.Cleanup(func() { _ = p.Process.Kill() })
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			var limiter int
			var waited time.Duration
			if _, err := fmt.Sscan(lines.Text(), &limiter, &waited); err != nil {
				continue // a process that is killed may end within a line
			}
			now := time.Now()
			if now.After(since) && now.Before(since.Add(loadTime)) {
				p.granted[limiter]++
			}
			if now.Add(-waited).After(since) {
				p.longest[limiter] = max(p.longest[limiter], waited)
			}
		}
		_ = p.Wait()
	}()
	return p
}

// TestAcquire_ProcessesFail_OthersGoOn: the others share what there is, and none of them waits for long. A process
// without processor time gets less than its share: in fake time, TestAcquire_ClientsFail_NoPermitIsIdle and
// TestAcquire_ClientsWait_ShareEqually have narrow bounds.
func TestAcquire_ProcessesFail_OthersGoOn(t *testing.T) {
	server := servers.Single(t)
	far, hanging := proxy.Start(t, server.Addr()), proxy.Start(t, server.Addr())
	for _, direction := range []string{"upstream", "downstream"} {
		far.Disturb(t, "latency", direction, `"latency": 3`)
	}
	begin := time.Now().Add(3 * time.Second) // all have started
	steady := map[string]*process{
		"near":   launch(t, server.Addr(), begin),
		"far":    launch(t, far.Listen, begin),
		"ahead":  launch(t, server.Addr(), begin, clockEnv+"=1m"),
		"behind": launch(t, server.Addr(), begin, clockEnv+"=-1m"),
	}
	killed, stopped := launch(t, server.Addr(), begin), launch(t, server.Addr(), begin)
	cut, visits := launch(t, hanging.Listen, begin), launch(t, server.Addr(), begin, visitsEnv+"=1")
	time.Sleep(time.Until(begin.Add(loadTime / 4)))
	require.NoError(t, killed.Process.Kill())
	require.NoError(t, stopped.Process.Signal(syscall.SIGSTOP))
	restore := []func(){hanging.Disturb(t, "timeout", "upstream", `"timeout": 0`),
		hanging.Disturb(t, "timeout", "downstream", `"timeout": 0`)}
	time.Sleep(away)
	require.NoError(t, stopped.Process.Signal(syscall.SIGCONT))
	for _, end := range restore {
		end()
	}
	time.Sleep(time.Until(begin.Add(loadTime)))
	all := []*process{killed, stopped, cut, visits}
	for _, p := range steady {
		all = append(all, p)
	}
	for _, p := range all {
		_ = p.stdin.Close()
		<-p.ended
	}
	for i, limiter := range limiters {
		sum, ofSteady := 0, 0
		for _, p := range all {
			sum += p.granted[i]
		}
		for _, p := range steady {
			ofSteady += p.granted[i]
		}
		t.Logf("%s: %d granted; killed %d, stopped %d, cut off %d, visits %d", limiter, sum, killed.granted[i],
			stopped.granted[i], cut.granted[i], visits.granted[i])
		for name, p := range steady {
			share := float64(p.granted[i]*len(steady)) / float64(cmp.Or(ofSteady, 1))
			t.Logf("%s: %s has %d, and waited for %v", limiter, name, p.granted[i], p.longest[i])
			assert.InDelta(t, 1, share, 0.5, "%s: %s", limiter, name)
			assert.Less(t, p.longest[i], longest, "%s: %s", limiter, name)
		}
		assert.Greater(t, float64(sum), 0.8*perSecond*loadTime.Seconds(), limiter)
	}
}
