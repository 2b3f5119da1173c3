package scale_test

import (
	"cmp"
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
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

// 5,000 callers in two processes wait in Acquire for one bucket that fills by 1,000 a
// second.
const (
	reservers   = 5000
	perSecond   = 1000
	arriveIn    = time.Second
	processes   = 2
	reserverEnv = "RRATELIMITER_RESERVER"
)

// bucket has one permit at the start and then one a millisecond: each caller has a moment of its
// own.
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

// served is when a caller came and when it was granted its permit, Unix nanoseconds.
type served struct{ Came, Granted int64 }

// reserver is a process of the crowd: its callers come one after another, and it prints when each
// was served.
func reserver(spec string) error {
	addr, begin, _ := strings.Cut(spec, " ")
	start, err := strconv.ParseInt(begin, 10, 64)
	if err != nil {
		return err
	}
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true,
		DisableCache: true})
	if err != nil {
		return err
	}
	defer redis.Close()
	l := limit.New(rratelimiter.New(redis), "reserved", bucket)
	const callers = reservers / processes
	log, errs := make([]served, callers), make([]error, callers)
	var all sync.WaitGroup
	for i := range callers {
		time.Sleep(time.Until(time.Unix(0, start).Add(time.Duration(i) * arriveIn / callers)))
		all.Go(func() {
			log[i].Came = time.Now().UnixNano()
			errs[i] = l.Acquire(context.Background(), 1)
			log[i].Granted = time.Now().UnixNano()
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(log)
}

// Callers are served in the order of their arrival at Redis, each by at most one call. The log
// shows how late they are, which depends on the machine.
func TestAcquire_TwoProcesses_AreServedInOrder(t *testing.T) {
	server := servers.Single(t)
	calls := -server.Calls(t, "evalsha")
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
	var all []served
	for i, command := range commands {
		var log []served
		require.NoError(t, json.NewDecoder(outs[i]).Decode(&log))
		require.NoError(t, command.Wait())
		all = append(all, log...)
	}
	stall, _ := stalled()
	calls += server.Calls(t, "evalsha")
	require.Len(t, all, reservers)

	// The k-th caller at Redis has the k-th moment: moments are a millisecond apart, and no caller
	// is before its own.
	slices.SortFunc(all, func(a, b served) int { return cmp.Compare(a.Granted, b.Granted) })
	late := make([]time.Duration, reservers)
	for k, caller := range all {
		late[k] = time.Duration(caller.Granted-all[0].Granted) - time.Duration(k)*time.Second/perSecond
	}
	slices.Sort(late)
	at := func(share float64) time.Duration { return late[int(share*(reservers-1))].Round(10 * time.Microsecond) }
	// Calls of both processes reach Redis in the order in which their callers came, but for what
	// the machine delays. No caller is served before one that came so long before it, in whichever
	// process.
	apart := 2*stall + 100*time.Millisecond
	slices.SortFunc(all, func(a, b served) int { return cmp.Compare(a.Came, b.Came) })
	var before, last int
	var latest int64
	for ; last < reservers; last++ {
		for ; all[before].Came+int64(apart) < all[last].Came; before++ {
			latest = max(latest, all[before].Granted)
		}
		if latest > all[last].Granted+int64(stall) {
			break
		}
	}
	t.Logf("%d callers, %d calls; against the first: late by %v at the median, %v at p99, %v at most, early by %v; "+
		"a timer of the test's own was late by %v at most",
		reservers, calls, at(0.5), at(0.99), at(1), max(0, -late[0]), stall)
	require.LessOrEqual(t, calls, int64(reservers), "more than a call for each")
	// The first one may be late itself.
	require.Greater(t, late[0], -(stall + 20*time.Millisecond), "a caller was served before its time")
	require.Equal(t, reservers, last, "a caller was served before one who came %v before it", apart)
}
