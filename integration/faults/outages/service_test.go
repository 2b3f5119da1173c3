package outages

import (
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/integration/tools/proxy"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

// TestOutage_MasterBecomesReplicaBehindOneAddress_ClientDialsAgain: the old connections stay open, and their server
// refuses writes. A client of Connect dials again, once for all callers. One of the program's own does when its
// connections have reached their ConnLifetime, and otherwise never; its middleware reports the outage.
func TestOutage_MasterBecomesReplicaBehindOneAddress_ClientDialsAgain(t *testing.T) {
	t.Parallel()
	master, replica := startPair(t)
	service := proxy.StartService(t, master.Addr())
	option := rueidis.ClientOption{InitAddress: []string{service.Addr()}, DisableCache: true}
	connected, err := rratelimiter.Connect(option)
	require.NoError(t, err)
	t.Cleanup(connected.Close)
	const patient = 10 * time.Second // for a busy machine
	dialing, old := startWeb(t, connected, patient), startWeb(t, servers.Connect(t, option), time.Second/2)
	option.ConnLifetime = 2 * time.Second
	living := startWeb(t, servers.Connect(t, option), patient)
	for range 4 { // to and fro
		time.Sleep(time.Second)
		switchRoles(t, master, replica, service)
		switched := time.Now()
		dialing.awaitGrants(t, switched)
		living.awaitGrants(t, switched)
		master, replica = replica, master
	}
	old.stop()
	for client, w := range map[string]*web{"Connect": dialing, "ConnLifetime": living} {
		w.stop()
		t.Logf("%s: %d calls failed, the longest time %v", client, len(w.failures()), w.longest)
		for _, failure := range w.failures() {
			require.Contains(t, []string{"READONLY", "MASTERDOWN", "LOADING"}, Kind(failure, "web"), "%v", failure)
		}
	}
	require.Empty(t, dialing.reports(), "it has dialed before an outage begins")
	readOnly := func(report string) bool { return strings.Contains(report, "READONLY") }
	require.True(t, slices.ContainsFunc(old.reports(), readOnly), "%q", old.reports()) // others come of a busy machine
}

// startPair starts a master and its replica.
func startPair(t *testing.T) (master, replica *servers.Server) {
	soon := []string{"--repl-diskless-sync-delay", "0"}
	master, replica = servers.Single(t, soon...), servers.Single(t, soon...)
	follow(t, replica, master)
	return master, replica
}

// follow makes a server the replica of another one, and waits until it has its data.
func follow(t *testing.T, replica, master *servers.Server) {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	command(t, replica, "REPLICAOF", host, port)
	require.Eventually(t, func() bool {
		return strings.Contains(replica.Text(t, "INFO", "replication"), "master_link_status:up")
	}, settleTimeout, 10*time.Millisecond)
}

// switchRoles makes the replica the master, as an operator of one address does.
func switchRoles(t *testing.T, master, replica *servers.Server, service *proxy.Service) {
	t.Helper()
	command(t, replica, "REPLICAOF", "NO", "ONE")
	service.Point(replica.Addr())
	follow(t, master, replica)
}

// web is requests of some callers to a middleware.
type web struct {
	end  chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex
	failed  []error
	longest time.Duration // between the grants of a caller
	granted [callersOfWeb]time.Time
	changes []string
}

const callersOfWeb = 16

func startWeb(t *testing.T, redis rueidis.Client, deadline time.Duration) *web {
	w := &web{end: make(chan struct{})}
	limiter := limit.New(rratelimiter.New(redis), "web", limit.FixedWindow{Permits: 1_000_000, Interval: time.Hour})
	handler := httplimit.Middleware(httplimit.All(limiter), httplimit.Deadline(deadline),
		httplimit.OnRedisChange(func(_ string, up bool, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if !up {
				w.changes = append(w.changes, err.Error())
			}
		}),
		httplimit.Report(func(_ *http.Request, o limit.Outcome) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if o.Err != nil && !strings.Contains(o.Err.Error(), "is down") {
				w.failed = append(w.failed, o.Err)
			}
		}))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for i := range callersOfWeb {
		w.done.Go(func() {
			for {
				select {
				case <-w.end:
					return
				case <-time.After(5 * time.Millisecond):
				}
				began, answer := time.Now(), httptest.NewRecorder()
				handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
				if answer.Code == http.StatusOK {
					w.mu.Lock()
					if last := w.granted[i]; !last.IsZero() {
						w.longest = max(w.longest, began.Sub(last))
					}
					w.granted[i] = began
					w.mu.Unlock()
				} else {
					assert.Equal(t, http.StatusServiceUnavailable, answer.Code)
				}
			}
		})
	}
	t.Cleanup(w.stop)
	return w
}

func (w *web) stop() {
	select {
	case <-w.end:
	default:
		close(w.end)
	}
	w.done.Wait()
}

// awaitGrants waits until each caller was granted a call that began later.
func (w *web) awaitGrants(t *testing.T, later time.Time) {
	t.Helper()
	require.Eventually(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, at := range w.granted {
			if !at.After(later) {
				return false
			}
		}
		return true
	}, 30*time.Second, time.Millisecond)
}

func (w *web) failures() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]error(nil), w.failed...)
}

func (w *web) reports() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.changes...)
}
