package middleware

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

// nodeDeadline is that of the middlewares of a cluster.
const nodeDeadline = 300 * time.Millisecond

// One of three masters hangs, is killed, or is slow. What asks it is decided by the mode at once, what
// asks the others by them, with much and with little traffic. A slow one still decides.
func TestOutages_OneMasterOfThree_OthersDecide(t *testing.T) {
	for fault, f := range map[string]func(s *servers.Server) (repair func() error){
		"hung":   func(s *servers.Server) func() error { require.NoError(t, s.Pause()); return s.Resume },
		"killed": func(s *servers.Server) func() error { require.NoError(t, s.Kill()); return s.Restart },
		"slow":   slow,
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			cluster := servers.NewCluster(t, "--cluster-require-full-coverage", "no", "--cluster-replica-no-failover", "yes")
			broken, names := namesOfMasters(t, cluster)
			redis := servers.Connect(t, rueidis.ClientOption{InitAddress: cluster.Addrs()})
			client := rratelimiter.New(redis)
			var loads []*nodeLoad
			for _, mode := range []limit.FailureMode{limit.Open, limit.Closed, limit.Local(share)} {
				for _, pause := range []time.Duration{5 * time.Millisecond, 2 * nodeDeadline} {
					loads = append(loads, startNodeLoad(t, client, mode, names, pause))
				}
			}
			time.Sleep(time.Second) // the slots are known
			begin := time.Now()
			repair := f(broken)
			time.Sleep(outage)
			require.NoError(t, repair())
			if fault != "slow" { // a master that was killed joins the cluster late
				require.Eventually(t, func() bool {
					return !slices.ContainsFunc(loads, func(l *nodeLoad) bool { return !l.isUp() })
				}, 30*time.Second, 5*time.Millisecond)
			}
			end := time.Now()
			time.Sleep(time.Second)
			for _, l := range loads {
				l.check(t, fault, broken.Addr(), begin, end)
			}
		})
	}
}

// slow stops and continues a server, so that its answers take up to half of the deadline.
func slow(s *servers.Server) (end func() error) {
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			_ = s.Pause() // the load shows a failure
			time.Sleep(nodeDeadline / 3)
			_ = s.Resume()
			time.Sleep(nodeDeadline / 6)
		}
	})
	return func() error { stop(); done.Wait(); return s.Resume() }
}

// namesOfMasters returns a master, and a name in the slots of each, its own first.
func namesOfMasters(t *testing.T, c *servers.Cluster) (first *servers.Server, names []string) {
	var masters []*servers.Server
	for i := 0; len(masters) < 3; i++ {
		name := fmt.Sprintf("client%d", i)
		slot, err := c.SlotOf(t.Context(), "{web:"+name+"}")
		require.NoError(t, err)
		master, err := c.MasterOf(t.Context(), slot)
		require.NoError(t, err)
		if !slices.Contains(masters, master) {
			masters, names = append(masters, master), append(names, name)
		}
	}
	return masters[0], names
}

// nodeLoad is requests to a middleware for names of several nodes.
type nodeLoad struct {
	mode  limit.FailureMode
	names []string // the first one is of the node that fails
	pause time.Duration
	stop  context.CancelFunc
	done  sync.WaitGroup

	mu        sync.Mutex
	decisions []decision
	changes   []string
}

func startNodeLoad(t *testing.T, client *rratelimiter.Client, mode limit.FailureMode, names []string,
	pause time.Duration) *nodeLoad {
	l := &nodeLoad{mode: mode, names: names, pause: pause}
	perClient := httplimit.Each(client, "web", httplimit.ByHeader("X-Client"),
		limit.SlidingWindow{Permits: 1_000_000, Interval: time.Minute})
	handler := httplimit.Middleware(perClient, httplimit.OnFailure(mode), httplimit.Deadline(nodeDeadline),
		httplimit.OnRedisChange(func(node string, up bool, _ error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.changes = append(l.changes, fmt.Sprint(node, " ", up))
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

// isUp reports whether an outage was reported, and its end.
func (l *nodeLoad) isUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.changes) == 2
}

// check checks the decisions of a load whose first name was of the broken node from begin to end.
func (l *nodeLoad) check(t *testing.T, fault, node string, begin, end time.Time) {
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
			if d.took > nodeDeadline/2 {
				waited++
			}
		default:
			others++
			assert.Less(t, d.took, nodeDeadline, "%s: %+v", text, d)
		}
	}
	want := []string{node + " false", node + " true"}
	if fault == "slow" {
		want = nil
	} else {
		assert.Positive(t, failed, text)
		assert.LessOrEqual(t, waited, 1+failed/10, "%s: requests that waited for the deadline", text)
		assert.Greater(t, others, failed, text)
	}
	assert.Equal(t, want, l.changes, text)
	t.Logf("%s: %d decided by Redis, %d by the mode, %d of them waited: %v", text, others, failed, waited, l.changes)
}
