// Package places_test runs a thousand callers in ten processes on the places of a limit.InFlight, while
// processes are killed, callers leave, and Redis hangs and loses its data.
//
// PLACES_LOAD is the duration of the load, by default 6s.
package places_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/leaks"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

const (
	memberEnv = "PLACES_MEMBER" // the address of the Redis of a process of its own
	places    = 50
	processes = 10
	callers   = 100 // of a process
	lease     = 3 * time.Second
)

var loadTime = env.Duration("PLACES_LOAD", 6*time.Second)

// TestMain runs the tests, or in a process of its own a member.
func TestMain(m *testing.M) {
	if addr := os.Getenv(memberEnv); addr != "" {
		member(addr)
		return
	}
	os.Exit(leaks.Main(m))
}

func open(redis rueidis.Client) *limit.Limiter {
	return limit.New(rratelimiter.New(redis), "model", limit.InFlight{Permits: places, Lease: lease})
}

func option(addr string) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true}
}

// member runs callers until its input ends. It writes a line when a caller has a place, with the time and
// the earliest end of its lease, and one before the caller returns it.
func member(addr string) {
	redis, err := rueidis.NewClient(option(addr))
	for ; err != nil; redis, err = rueidis.NewClient(option(addr)) {
		time.Sleep(20 * time.Millisecond) // Redis is away
	}
	defer redis.Close()
	l, ctx, all := open(redis), context.Background(), sync.WaitGroup{}
	ctx, stop := context.WithCancel(ctx)
	for caller := range callers {
		all.Go(func() {
			for call := 0; ctx.Err() == nil; call++ {
				wait := time.Second
				if rand.IntN(3) == 0 {
					wait = rand.N(60 * time.Millisecond) // it leaves
				}
				within, cancel := context.WithTimeout(ctx, wait)
				var taken limit.Taken
				begin := time.Now()
				err := taken.Acquire(within, 1, l)
				cancel()
				if err != nil {
					time.Sleep(rand.N(20 * time.Millisecond))
					continue
				}
				fmt.Printf("+ %d.%d %d %d\n", caller, call, time.Now().UnixNano(), begin.Add(lease).UnixNano())
				length := rand.N(200 * time.Millisecond)
				if rand.IntN(300) == 0 {
					length += lease // the call outlives it
				}
				time.Sleep(length)
				fmt.Printf("- %d.%d %d 0\n", caller, call, time.Now().UnixNano())
				_ = taken.Settle(ctx, 1) // while Redis is away, the lease ends
			}
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop()
	all.Wait()
}

// hold is a place that a caller holds for certain.
type hold struct{ from, to int64 }

// process is a member, and what it has written.
type process struct {
	*exec.Cmd
	stdin io.Closer
	ended chan struct{}
	holds map[string]*hold
	died  int64 // it was alive until then
}

func launch(t *testing.T, addr string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0]), ended: make(chan struct{}), holds: make(map[string]*hold)}
	p.Env = append(os.Environ(), memberEnv+"="+addr)
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
		for lines := bufio.NewReader(stdout); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				_ = p.Wait()
				return
			}
			words := strings.Fields(line)
			at, _ := strconv.ParseInt(words[2], 10, 64)
			if end, _ := strconv.ParseInt(words[3], 10, 64); words[0] == "+" {
				p.holds[words[1]] = &hold{at, end}
			} else {
				p.holds[words[1]].to = min(p.holds[words[1]].to, at)
			}
		}
	}()
	return p
}

// mostAtOnce returns the largest number of places that were held at once.
func mostAtOnce(all []hold) (most int) {
	type change struct {
		at int64
		by int
	}
	var changes []change
	for _, h := range all {
		if h.from < h.to {
			changes = append(changes, change{h.from, 1}, change{h.to, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), a.by-b.by) })
	held := 0
	for _, c := range changes {
		held += c.by
		most = max(most, held)
	}
	return most
}

// TestInFlight_Crashes_NoMorePlacesThanPermits are held by callers that are alive and within their lease,
// and all places are back a lease after the last call. A Redis that has lost its data knows no earlier
// places: these count apart.
func TestInFlight_Crashes_NoMorePlacesThanPermits(t *testing.T) {
	server := servers.Single(t)
	var gone, alive []*process
	for range processes {
		alive = append(alive, launch(t, server.Addr()))
	}
	var calls int64
	var restarts []int64
	began := time.Now()
	for step := 0; time.Since(began) < loadTime; step++ {
		time.Sleep(300*time.Millisecond + rand.N(400*time.Millisecond))
		switch step % 6 {
		case 2:
			require.NoError(t, server.Pause())
			time.Sleep(rand.N(time.Second))
			require.NoError(t, server.Resume())
		case 4:
			calls += server.Calls(t, "evalsha")
			require.NoError(t, server.Kill())
			time.Sleep(rand.N(500 * time.Millisecond))
			restarts = append(restarts, time.Now().UnixNano())
			require.NoError(t, server.Restart())
		default:
			i := rand.IntN(len(alive))
			alive[i].died = time.Now().UnixNano()
			require.NoError(t, alive[i].Process.Kill())
			gone = append(gone, alive[i])
			alive[i] = launch(t, server.Addr())
		}
	}
	for _, p := range alive {
		require.NoError(t, p.stdin.Close())
	}
	var all []hold
	for _, p := range append(gone, alive...) {
		<-p.ended
		for _, h := range p.holds {
			if p.died > 0 {
				h.to = min(h.to, p.died)
			}
			all = append(all, *h)
		}
	}
	back := time.Now()
	calls += server.Calls(t, "evalsha")
	for l := open(servers.Connect(t, option(server.Addr()))); ; time.Sleep(10 * time.Millisecond) {
		waited := time.Since(back)
		each, err := l.Peek(t.Context())
		require.NoError(t, err)
		if each[0].Remaining == places {
			break
		}
		require.Less(t, waited, lease+100*time.Millisecond, "%d places are not back", places-each[0].Remaining)
	}
	t.Logf("the places were back %v after the last process", time.Since(back).Round(time.Millisecond))

	most := 0
	for i := range len(restarts) + 1 { // what was granted between two losses of data
		span := slices.DeleteFunc(slices.Clone(all), func(h hold) bool {
			return i > 0 && h.from < restarts[i-1] || i < len(restarts) && h.from >= restarts[i]
		})
		most = max(most, mostAtOnce(span))
	}
	t.Logf("%d grants in %v, %.2f calls for each, at most %d places at once (%d with those before a loss of data); "+
		"%d processes were killed, %d times the data were lost", len(all), loadTime, float64(calls)/float64(len(all)), most,
		mostAtOnce(all), len(gone), len(restarts))
	assert.LessOrEqual(t, most, places)
	assert.Greater(t, most, places*9/10)
	assert.Greater(t, len(all), 20*int(loadTime.Seconds()))
}
