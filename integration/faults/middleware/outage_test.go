// Package middleware tests httplimit under load while nodes of a real Redis fail. The guard behind it
// is that of grpclimit, too.
package middleware

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/integration/tools/leaks"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

const (
	outage   = 2 * time.Second
	deadline = time.Second
	slack    = time.Second // for a busy machine
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

// A single server or one of three masters hangs, is killed, or is slow. The mode decides its requests
// at once, and the other masters decide theirs, with much and with little traffic. A slow server still
// decides. The program has the documented rights. A busy machine may end an outage and begin it again.
func TestOutages_FailureModes_DecideAsDocumented(t *testing.T) {
	for fault, f := range map[string]func(s *servers.Server) (repair func() error){
		"hung":   func(s *servers.Server) func() error { require.NoError(t, s.Pause()); return s.Resume },
		"killed": func(s *servers.Server) func() error { require.NoError(t, s.Kill()); return s.Restart },
		"slow":   slow,
	} {
		for _, masters := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, masters: %d", fault, masters), func(t *testing.T) {
				t.Parallel()
				broken, addrs, names := startMasters(t, masters)
				client := rratelimiter.New(servers.Connect(t, option(addrs)))
				var loads []*load
				for _, mode := range []limit.FailureMode{limit.Open, limit.Closed, limit.Local(0.1)} {
					for _, pause := range []time.Duration{5 * time.Millisecond, 1200 * time.Millisecond} {
						loads = append(loads, startLoad(t, client, mode, names, pause))
					}
				}
				time.Sleep(time.Second) // the slots are known
				await := func(up bool) {
					require.Eventually(t, func() bool {
						return fault == "slow" || !slices.ContainsFunc(loads, func(l *load) bool { return l.isUp() != up })
					}, time.Minute, 5*time.Millisecond)
				}
				begin := time.Now()
				repair := f(broken)
				await(false)
				time.Sleep(outage)
				require.NoError(t, repair())
				await(true) // a master that was killed joins the cluster late
				end := time.Now()
				time.Sleep(time.Second)
				for _, l := range loads {
					l.check(t, fault, broken.Addr(), begin, end)
				}
			})
		}
	}
}

// A master hangs, and its replica takes over. While the client sends calls to the one that hangs, that is the
// one that is down, and no request waits after the first ones.
func TestFailover_OfAHungMaster_BlamesNoOther(t *testing.T) {
	t.Parallel()
	c := servers.NewCluster(t, rights...)
	slot, err := c.SlotOf(t.Context(), "{web:client}")
	require.NoError(t, err)
	broken, err := c.MasterOf(t.Context(), slot)
	require.NoError(t, err)
	client := rratelimiter.New(servers.Connect(t, option(c.Addrs())))
	l := startLoad(t, client, limit.Closed, []string{"client"}, 5*time.Millisecond)
	time.Sleep(time.Second)
	require.NoError(t, broken.Pause())
	require.Eventually(t, func() bool { return !l.isUp() }, time.Minute, 5*time.Millisecond)
	require.Eventually(t, l.isUp, time.Minute, 5*time.Millisecond)
	time.Sleep(time.Second)
	l.stop()
	l.done.Wait()
	failed, waited := 0, 0
	for _, d := range l.decisions {
		if d.result == limit.FailedClosed {
			if failed++; d.took > deadline/2 {
				waited++
			}
		}
	}
	assert.LessOrEqual(t, waited, 1+failed/10, "%d decided by the mode: %+v", failed, l.reported())
	assert.Equal(t, []string{broken.Addr() + " false", broken.Addr() + " true"}, l.reported())
	assert.True(t, l.moved)
	require.NoError(t, broken.Resume())
}

// slow stops and continues a server, so that its answers take up to a quarter of the deadline.
func slow(s *servers.Server) (end func() error) {
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			_ = s.Pause() // the load shows a failure
			time.Sleep(deadline / 4)
			_ = s.Resume()
			time.Sleep(deadline / 2) // a busy machine needs some of it
		}
	})
	return func() error { stop(); done.Wait(); return s.Resume() }
}

// rights are arguments of a server with a user that has the rights in docs/compatibility.md.
var rights = []string{"--user", "web", "on", ">secret", "~{web:*", "+@connection", "+cluster|slots", "+cluster|shards",
	"+evalsha", "+eval", "+get", "+set", "+unlink"}

func option(addrs []string) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: addrs, Username: "web", Password: "secret", DisableCache: true}
}

// startMasters starts a server, or a cluster of three masters. It returns a master, all addresses, and
// a name in the slots of each master, the first one's first.
func startMasters(t *testing.T, masters int) (first *servers.Server, addrs, names []string) {
	if masters == 1 {
		first = servers.Single(t, rights...)
		return first, []string{first.Addr()}, []string{"client"}
	}
	c := servers.NewCluster(t, append(rights, "--cluster-require-full-coverage", "no", "--cluster-replica-no-failover",
		"yes")...)
	var found []*servers.Server
	for i := 0; len(found) < masters; i++ {
		name := fmt.Sprintf("client%d", i)
		slot, err := c.SlotOf(t.Context(), "{web:"+name+"}")
		require.NoError(t, err)
		master, err := c.MasterOf(t.Context(), slot)
		require.NoError(t, err)
		if !slices.Contains(found, master) {
			found, names = append(found, master), append(names, name)
		}
	}
	return found[0], c.Addrs(), names
}

// decision is the result of one request, and the time that it took.
type decision struct {
	at     time.Time
	result limit.Result
	local  bool
	key    string
	took   time.Duration
}

// load is requests to a middleware, a client for each name.
type load struct {
	mode  limit.FailureMode
	names []string // the first one is of the node that fails
	pause time.Duration
	stop  context.CancelFunc
	done  sync.WaitGroup

	mu        sync.Mutex
	decisions []decision
	changes   []string // down and up in turn
	moved     bool     // an outage has ended since another node took over
}

type arrivalKey struct{}

func startLoad(t *testing.T, client *rratelimiter.Client, mode limit.FailureMode, names []string,
	pause time.Duration) *load {
	l := &load{mode: mode, names: names, pause: pause}
	perClient := httplimit.Each(client, "web", httplimit.ByHeader("X-Client"),
		limit.SlidingWindow{Permits: 1_000_000, Interval: time.Minute})
	handler := httplimit.Middleware(perClient, httplimit.OnFailure(mode), httplimit.Deadline(deadline),
		httplimit.OnRedisChange(func(node string, up bool, err error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.changes = append(l.changes, fmt.Sprint(node, " ", up))
			l.moved = l.moved || up && err != nil
		}),
		httplimit.Report(func(r *http.Request, o limit.Outcome) {
			now := time.Now()
			took := now.Sub(r.Context().Value(arrivalKey{}).(time.Time))
			l.mu.Lock()
			defer l.mu.Unlock()
			l.decisions = append(l.decisions, decision{now, o.Result, o.Local, r.Header.Get("X-Client"), took})
		}),
	)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	t.Cleanup(stop)
	for _, name := range names {
		l.done.Go(func() {
			for ctx.Err() == nil {
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.Header.Set("X-Client", name)
				handler.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithValue(ctx, arrivalKey{}, time.Now())))
				time.Sleep(pause)
			}
		})
	}
	return l
}

// reported returns the changes so far. A probe may report one after the load has ended.
func (l *load) reported() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.changes)
}

// isUp reports whether no outage was reported that has not ended.
func (l *load) isUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.changes)%2 == 0
}

// check ends a load and checks its decisions. Its first name was of the broken node from begin to end.
func (l *load) check(t *testing.T, fault, node string, begin, end time.Time) {
	l.stop()
	l.done.Wait()
	text := fmt.Sprintf("%s, mode %v, a request each %v", fault, float64(l.mode), l.pause)
	assert.NotEmpty(t, l.decisions, text)
	failed, waited, others := 0, 0, 0
	for _, d := range l.decisions {
		byMode := d.local || d.result == limit.FailedOpen || d.result == limit.FailedClosed
		switch {
		case d.result == limit.Canceled: // the end of the load
		case fault == "slow", d.at.Before(begin), d.at.Add(-d.took).After(end):
			assert.False(t, byMode, "%s: %+v", text, d)
		case byMode:
			failed++
			assert.Equal(t, l.names[0], d.key, "%s: %+v", text, d)
			assert.Equal(t, l.mode == limit.Open, d.result == limit.FailedOpen, "%s: %+v", text, d)
			assert.Equal(t, l.mode == limit.Closed, d.result == limit.FailedClosed, "%s: %+v", text, d)
			assert.Less(t, d.took, deadline+slack, "%s: %+v", text, d)
			if d.took > deadline/2 {
				waited++
			}
		default:
			others++
		}
	}
	assert.Equal(t, fault == "slow", failed == 0, text)
	changes := l.reported()
	assert.Equal(t, fault == "slow", changes == nil, text)
	assert.False(t, l.moved, text)
	for i, change := range changes {
		assert.Equal(t, fmt.Sprint(node, " ", i%2 == 1), change, text)
	}
	if l.pause < deadline { // rare requests ask Redis again and again
		assert.LessOrEqual(t, waited, 1+failed/10, "%s: requests that waited for the deadline", text)
	}
	if fault != "slow" && len(l.names) > 1 {
		assert.Positive(t, others, "%s: decisions of the other masters", text)
	}
	t.Logf("%s: %d decided by Redis, %d by the mode, %d of them waited: %v", text, others, failed, waited, changes)
}
