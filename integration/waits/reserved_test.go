package waits_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Issue 10: 5,000 callers in two processes wait in Acquire for one bucket that fills by 1,000 a second.
const (
	reservers   = 5000
	perSecond   = 1000
	arriveIn    = time.Second
	processes   = 2
	reserverEnv = "RRATELIMITER_RESERVER"
)

// bucket has one permit at the start and then one a millisecond: each caller has a moment of its own.
var bucket = limit.TokenBucket{Capacity: 1, Refill: perSecond, Interval: time.Second}

func TestMain(m *testing.M) {
	if spec := os.Getenv(reserverEnv); spec != "" {
		if err := reserver(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// reserver is a process of the crowd: its callers come one after another, and it prints when each was granted its permit.
func reserver(spec string) error {
	addr, begin, _ := strings.Cut(spec, " ")
	start, err := strconv.ParseInt(begin, 10, 64)
	if err != nil {
		return err
	}
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		return err
	}
	defer redis.Close()
	l := limit.New(rratelimiter.New(redis), "reserved", bucket)
	const callers = reservers / processes
	granted, errs := make([]int64, callers), make([]error, callers)
	var all sync.WaitGroup
	for i := range callers {
		time.Sleep(time.Until(time.Unix(0, start).Add(time.Duration(i) * arriveIn / callers)))
		all.Go(func() {
			errs[i] = l.Acquire(context.Background(), 1)
			granted[i] = time.Now().UnixNano()
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(granted)
}

// TestCallersOfTwoProcessesAreServedInTheirOrder of arrival at Redis, each by one call at most. How late they are is in the log:
// that is the machine's affair, but for what no machine explains.
func TestCallersOfTwoProcessesAreServedInTheirOrder(t *testing.T) {
	server := servers.Single(t)
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(redis.Close)
	before := scriptCalls(t, redis)
	stalled := machine()
	begin := time.Now().Add(500 * time.Millisecond)
	self, err := os.Executable()
	require.NoError(t, err)
	var outs [processes]io.ReadCloser
	var commands [processes]*exec.Cmd
	for i := range commands {
		commands[i] = exec.CommandContext(t.Context(), self)
		commands[i].Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", reserverEnv, server.Addr(), begin.UnixNano()))
		commands[i].Stderr = os.Stderr
		outs[i], err = commands[i].StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, commands[i].Start())
	}
	var granted [processes][]int64
	var all []int64
	for i, command := range commands {
		require.NoError(t, json.NewDecoder(outs[i]).Decode(&granted[i]))
		require.NoError(t, command.Wait())
		all = append(all, granted[i]...)
	}
	stall, _ := stalled()
	calls := scriptCalls(t, redis) - before
	require.Len(t, all, reservers)
	slices.Sort(all)

	// Whoever comes to Redis as the k-th has the k-th moment: their moments lie a millisecond apart, and nobody is before his own.
	late := make([]time.Duration, reservers)
	for k, at := range all {
		late[k] = time.Duration(at-all[0]) - time.Duration(k)*time.Second/perSecond
	}
	slices.Sort(late)
	at := func(share float64) time.Duration { return late[int(share*(reservers-1))].Round(10 * time.Microsecond) }
	// Of the two processes those who came at the same time are served at the same time, however long the queue was.
	apart := make([]time.Duration, reservers/processes)
	behind := 0
	for i := range apart {
		apart[i] = time.Duration(granted[0][i] - granted[1][i]).Abs()
		if i > 0 && granted[0][i] < granted[0][i-1] {
			behind++
		}
	}
	slices.Sort(apart)
	t.Logf("%d callers, %d calls; against the first: late by %v at the median, %v at p99, %v at most, early by %v; the two processes' apart by %v at the median and %v at p99; a timer of the test's own was late by %v at most; %d overtook the one before",
		reservers, calls, at(0.5), at(0.99), at(1), -late[0], apart[len(apart)/2], apart[len(apart)*99/100], stall, behind)
	require.LessOrEqual(t, calls, int64(reservers), "more than a call for each")
	// The first one may be late itself.
	require.Greater(t, late[0], -(stall + 20*time.Millisecond), "somebody was served before his moment")
	require.Less(t, at(0.99), stall+250*time.Millisecond)
	require.Less(t, apart[len(apart)*99/100], 2*stall+250*time.Millisecond, "one process is served before the other")
}

// scriptCalls is how many scripts Redis has been asked for.
func scriptCalls(t *testing.T, redis rueidis.Client) int64 {
	t.Helper()
	info, err := redis.Do(t.Context(), redis.B().Info().Section("commandstats").Build()).ToString()
	require.NoError(t, err)
	var calls int64
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
			count, _, _ := strings.Cut(rest, ",")
			calls, err = strconv.ParseInt(count, 10, 64)
			require.NoError(t, err)
		}
	}
	return calls
}
