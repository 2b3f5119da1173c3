package scale_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/integration/tools/suite"
	"github.com/rratelimiter/rratelimiter/limit"
)

// 5,000 callers in two processes wait in Acquire for one bucket that fills by 1,000 a
// second.
const (
	reservers = 5000
	perSecond = 1000
	arriveIn  = time.Second
	processes = 2
)

// bucket has one permit at the start and then one a millisecond, so each caller has its own time.
var bucket = limit.TokenBucket{Capacity: 1, Refill: perSecond, Interval: time.Second}

func TestMain(m *testing.M) { suite.Processes(m, reserver) }

// task is the task of a process: callers that arrive one after another from Begin on.
type task struct {
	Addr  string
	Begin time.Time
}

// served has the times when a caller arrived and got its permit, Unix nanoseconds.
type served struct{ Arrived, Granted int64 }

// report is what a process has seen. A ping of its own was late by Stall at most.
type report struct {
	Callers []served
	Stall   time.Duration
}

// reserver runs the task and prints its report.
func reserver(t task) error {
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{t.Addr}, ForceSingleClient: true,
		DisableCache: true})
	if err != nil {
		return err
	}
	defer redis.Close()
	l := limit.New(rratelimiter.New(redis), "reserved", bucket)
	const callers = reservers / processes
	log, errs := make([]served, callers), make([]error, callers)
	var all sync.WaitGroup
	stalled := machine(func() { _ = redis.Do(context.Background(), redis.B().Ping().Build()).Error() })
	for i := range callers {
		time.Sleep(time.Until(t.Begin.Add(time.Duration(i) * arriveIn / callers)))
		all.Go(func() {
			log[i].Arrived = time.Now().UnixNano()
			errs[i] = l.Acquire(context.Background(), 1)
			log[i].Granted = time.Now().UnixNano()
		})
	}
	all.Wait()
	stall, _ := stalled()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report{log, stall})
}

// Callers are served in the order of their arrival at Redis, each by at most one call. The log
// shows how late they are, which depends on the machine.
func TestAcquire_TwoProcesses_AreServedInOrder(t *testing.T) {
	server := servers.Single(t)
	calls := -server.Calls(t, "evalsha")
	begin := time.Now().Add(500 * time.Millisecond)
	var running [processes]*suite.Process
	for i := range running {
		running[i] = suite.Start(t, task{Addr: server.Addr(), Begin: begin})
	}
	var all []served
	var stall time.Duration
	for _, p := range running {
		var seen report
		require.NoError(t, p.Report(&seen))
		all, stall = append(all, seen.Callers...), max(stall, seen.Stall)
	}
	calls += server.Calls(t, "evalsha")
	require.Len(t, all, reservers)

	// The k-th caller at Redis gets the k-th permit, and permits are a millisecond apart. No caller
	// is early.
	slices.SortFunc(all, func(a, b served) int { return cmp.Compare(a.Granted, b.Granted) })
	late := make([]time.Duration, reservers)
	for k, caller := range all {
		late[k] = time.Duration(caller.Granted-all[0].Granted) - time.Duration(k)*time.Second/perSecond
	}
	slices.Sort(late)
	at := func(share float64) time.Duration { return late[int(share*(reservers-1))].Round(10 * time.Microsecond) }
	// Calls of both processes reach Redis in the order in which their callers arrived, except for
	// delays of the machine. No caller is served before one that arrived much earlier in either
	// process.
	apart := 2*stall + 100*time.Millisecond
	slices.SortFunc(all, func(a, b served) int { return cmp.Compare(a.Arrived, b.Arrived) })
	var before, last int
	var latest int64
	for ; last < reservers; last++ {
		for ; all[before].Arrived+int64(apart) < all[last].Arrived; before++ {
			latest = max(latest, all[before].Granted)
		}
		if latest > all[last].Granted+int64(stall) {
			break
		}
	}
	t.Logf("%d callers, %d calls; against the first: late by %v at the median, %v at p99, %v at most, early by %v; "+
		"a ping of the processes was late by %v at most",
		reservers, calls, at(0.5), at(0.99), at(1), max(0, -late[0]), stall)
	require.LessOrEqual(t, calls, int64(reservers), "more than one call per caller")
	// The first one may be late itself.
	require.Greater(t, late[0], -(stall + 20*time.Millisecond), "a caller was served before its time")
	require.Equal(t, reservers, last, "a caller was served before one that arrived %v earlier", apart)
}
