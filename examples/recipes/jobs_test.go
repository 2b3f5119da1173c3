package recipes

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// TestJobs_Code_Runs: each program of docs/jobs.md is in this file.
func TestJobs_Code_Runs(t *testing.T) {
	page, err := os.ReadFile("../../docs/jobs.md")
	require.NoError(t, err)
	file, err := os.ReadFile("jobs_test.go")
	require.NoError(t, err)
	margin := regexp.MustCompile(`(?m)^\t+`)
	runs := margin.ReplaceAllString(string(file), "")
	blocks := strings.Split(string(page), "```go\n")[1:]
	assert.Len(t, blocks, 7)
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		assert.True(t, strings.Contains(runs, margin.ReplaceAllString(code, "")), code)
	}
}

// Job is a job of a queue.
type Job struct {
	Tries int
	Do    func(ctx context.Context)
}

func run(ctx context.Context, taken *limit.Taken, job Job) {
	defer taken.Settle(ctx, 1) // keeps the permit of the minute and returns the places, also after a panic
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-taken.Lost(): // the places count no longer: end the job
			stop()
		case <-ctx.Done():
		}
	}()
	job.Do(ctx)
}

func placesOfJobs(client *rratelimiter.Client, id string) (jobs, ofTenant *limit.Limiter) {
	all := limit.New(client, "{jobs}:all", limit.InFlight{Permits: 20, Lease: 15 * time.Second, Renew: true})
	tenant := limit.New(client, "{jobs}:"+id, limit.FixedWindow{Permits: 100, Interval: time.Minute},
		limit.InFlight{Permits: 5, Lease: 15 * time.Second, Renew: true})
	return all, tenant
}

// runAll starts the jobs of one tenant.
func runAll(ctx context.Context, client *rratelimiter.Client, id string, jobs <-chan Job) error {
	all, tenant := placesOfJobs(client, id)
	for job := range jobs { // of one tenant
		taken := new(limit.Taken)
		if err := taken.Acquire(ctx, 1, tenant, all); err != nil {
			return err
		}
		go run(ctx, taken, job)
	}
	return nil
}

// running counts what runs at once.
type running struct{ now, most, done atomic.Int64 }

func (r *running) begin() {
	n := r.now.Add(1)
	for m := r.most.Load(); n > m && !r.most.CompareAndSwap(m, n); m = r.most.Load() {
	}
}

func (r *running) end() {
	r.now.Add(-1)
	r.done.Add(1)
}

// TestJobs_LoopOfEachTenant_MakesFewCalls: five tenants of 20 jobs each in two processes.
func TestJobs_LoopOfEachTenant_MakesFewCalls(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		begin := time.Now()
		var total running
		var loops sync.WaitGroup
		var tenants [5]running
		for range 2 {
			client := rratelimiter.New(f.Conn)
			for i := range tenants {
				jobs := make(chan Job)
				go func() {
					defer close(jobs)
					for range 10 {
						jobs <- Job{Do: func(ctx context.Context) {
							total.begin()
							tenants[i].begin()
							time.Sleep(time.Second + rand.N(time.Second))
							assert.NoError(t, ctx.Err())
							tenants[i].end()
							total.end()
						}}
					}
				}()
				loops.Go(func() { assert.NoError(t, runAll(t.Context(), client, string(rune('a'+i)), jobs)) })
			}
		}
		loops.Wait()
		time.Sleep(3 * time.Second)
		assert.EqualValues(t, 100, total.done.Load())
		assert.EqualValues(t, 20, total.most.Load())
		for i := range tenants {
			assert.EqualValues(t, 5, tenants[i].most.Load())
		}
		took := time.Since(begin)
		t.Logf("%v, %.0f scripts a second", took, float64(f.Scripts.Load())/took.Seconds())
		assert.Less(t, float64(f.Scripts.Load())/took.Seconds(), 10*40.)
	})
}

// delayed is a queue of jobs that a worker takes when they are due.
type delayed struct {
	jobs chan Job
	left sync.WaitGroup
}

func (q *delayed) Delay(job Job, d time.Duration) {
	time.AfterFunc(d, func() {
		job.Tries++
		q.jobs <- job
	})
}

// runOne runs a job of the queue, or delays it.
func runOne(ctx context.Context, queue *delayed, job Job, tenant, all *limit.Limiter) error {
	taken := new(limit.Taken)
	each, err := taken.TakeEach(ctx, 1, tenant, all)
	switch {
	case err != nil:
		return err
	case !each[0].Allowed: // the minute of the tenant
		queue.Delay(job, each[0].RetryAfter+rand.N(5*time.Second))
	case !each[1].Allowed, !each[2].Allowed: // a place, whose time is unknown
		queue.Delay(job, rand.N(time.Duration(min(job.Tries, 20))*time.Second))
	default:
		run(ctx, taken, job)
	}
	return nil
}

// TestJobs_DelayedJobs_MakeFewCalls: 400 jobs of a tenant.
func TestJobs_DelayedJobs_MakeFewCalls(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		all, tenant := placesOfJobs(rratelimiter.New(f.Conn), "acme")
		queue := &delayed{jobs: make(chan Job)}
		var runs running
		begin := time.Now()
		queue.left.Add(400)
		for range 400 {
			queue.Delay(Job{Do: func(context.Context) {
				runs.begin()
				time.Sleep(2 * time.Second)
				runs.end()
				queue.left.Done()
			}}, rand.N(time.Second))
		}
		for range 20 { // workers
			go func() {
				for job := range queue.jobs {
					assert.NoError(t, runOne(t.Context(), queue, job, tenant, all))
				}
			}()
		}
		queue.left.Wait()
		took := time.Since(begin)
		close(queue.jobs)
		synctest.Wait()
		t.Logf("%v, %d scripts, %.1f a second", took, f.Scripts.Load(), float64(f.Scripts.Load())/took.Seconds())
		assert.EqualValues(t, 5, runs.most.Load())
		assert.EqualValues(t, 400, runs.done.Load())
		assert.Less(t, float64(f.Scripts.Load())/took.Seconds(), 40.)
	})
}

type part struct {
	taken   *limit.Taken
	permits int64
	limiter *limit.Limiter
}

func takeBoth(ctx context.Context, first, second part) error {
	for {
		if err := first.taken.Acquire(ctx, first.permits, first.limiter); err != nil {
			return err
		}
		d, err := second.taken.Take(ctx, second.permits, second.limiter)
		if err != nil || d.Allowed {
			return err
		}
		if err := first.taken.Settle(ctx); err != nil {
			return err
		}
		first, second = second, first
	}
}

// TestJobs_APlaceAndACost_HoldsNoPlaceWhileItWaits. Package httplimit runs it on a provider.
func TestJobs_APlaceAndACost_HoldsNoPlaceWhileItWaits(t *testing.T) {
	test(t, func(t *testing.T, client *rratelimiter.Client) {
		ctx := t.Context()
		places := limit.New(client, "{x}:places", limit.InFlight{Permits: 1, Lease: time.Minute})
		tokens := limit.New(client, "{x}:tokens", limit.SlidingLog{Permits: 10, Interval: time.Minute})
		var before, call, spent limit.Taken
		require.NoError(t, before.Acquire(ctx, 10, tokens))
		begin, done := time.Now(), make(chan error)
		go func() { done <- takeBoth(ctx, part{&call, 1, places}, part{&spent, 3, tokens}) }()
		time.Sleep(30 * time.Second)
		require.NoError(t, places.Acquire(ctx, 1), "the waiter holds none") // for its lease
		require.NoError(t, <-done)
		assert.InDelta(t, 90, time.Since(begin).Seconds(), 1, "the minute of the place that was held")
		each, err := limit.Join(places, tokens).Peek(ctx)
		require.NoError(t, err)
		assert.Equal(t, []int64{0, 7}, []int64{each[0].Remaining, each[1].Remaining})
	})
}

// server echoes the messages of WebSockets.
type server struct{ connections, messages *limit.Keyed }

func newServer(client *rratelimiter.Client) *server {
	connections := limit.NewKeyed(client, "ws", limit.InFlight{Permits: 3, Lease: 15 * time.Second, Renew: true})
	messages := limit.NewKeyed(client, "ws-messages", limit.TokenBucket{Capacity: 20, Refill: 10, Interval: time.Second})
	return &server{connections, messages}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user := r.Header.Get("X-User") // set by what authenticates
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	var taken limit.Taken
	defer taken.Settle(ctx)
	if d, err := taken.Take(ctx, 1, s.connections.Limiter(user)); err != nil || !d.Allowed {
		http.Error(w, "too many connections", http.StatusTooManyRequests)
		return
	}
	lost := taken.Lost()
	go func() {
		select {
		case <-lost: // the place counts no longer
			stop()
		case <-ctx.Done():
		}
	}()
	conn, err := websocket.Accept(w, r, nil) // of github.com/coder/websocket
	if err != nil {
		return
	}
	defer conn.CloseNow()
	for limiter := s.messages.Limiter(user); limiter.Acquire(ctx, 1) == nil; {
		kind, message, err := conn.Read(ctx) // and no sooner: the sender waits
		if err != nil || conn.Write(ctx, kind, message) != nil {
			return
		}
	}
}

// serve serves a handler, and returns a client of it that uses connections in memory.
func serve(t *testing.T, handler http.Handler) *http.Transport {
	listener := redistest.NewListener()
	s := &http.Server{Handler: handler}
	go func() { _ = s.Serve(listener) }()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return listener.Dial(), nil
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.Close()
	})
	return transport
}

func dial(t *testing.T, to *http.Transport) (*websocket.Conn, int) {
	conn, resp, err := websocket.Dial(t.Context(), "ws://server/", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: to}, HTTPHeader: http.Header{"X-User": {"ada"}}})
	if err != nil {
		require.NotNil(t, resp, "%v", err)
		return nil, resp.StatusCode
	}
	return conn, resp.StatusCode
}

// TestJobs_WebSockets_ThreeOfAUser of a server, and of a proxy with a middleware: a place is held until its
// connection has ended, for any time.
func TestJobs_WebSockets_ThreeOfAUser(t *testing.T) {
	for name, handler := range map[string]func(t *testing.T, client *rratelimiter.Client) http.Handler{
		"server": func(_ *testing.T, client *rratelimiter.Client) http.Handler { return newServer(client) },
		"proxy": func(t *testing.T, client *rratelimiter.Client) http.Handler {
			s := newServer(client)
			s.connections = limit.NewKeyed(client, "backend", limit.InFlight{Permits: 100, Lease: time.Minute})
			proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "backend"})
			proxy.Transport = serve(t, s)
			return httplimit.Middleware(httplimit.Each(client, "ws", httplimit.ByHeader("X-User"),
				limit.InFlight{Permits: 3, Lease: 15 * time.Second, Renew: true}))(proxy)
		},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(t *testing.T, client *rratelimiter.Client) {
				to, ctx := serve(t, handler(t, client)), t.Context()
				var conns []*websocket.Conn
				for range 3 {
					conn, status := dial(t, to)
					require.Equal(t, http.StatusSwitchingProtocols, status)
					conns = append(conns, conn)
				}
				_, status := dial(t, to)
				require.Equal(t, http.StatusTooManyRequests, status)
				time.Sleep(90 * time.Second)
				_, status = dial(t, to)
				require.Equal(t, http.StatusTooManyRequests, status, "they are renewed")
				begin := time.Now()
				for range 60 {
					require.NoError(t, conns[0].Write(ctx, websocket.MessageText, []byte("hello")))
					_, message, err := conns[0].Read(ctx)
					require.NoError(t, err)
					assert.Equal(t, "hello", string(message))
				}
				assert.InDelta(t, 4, time.Since(begin).Seconds(), 0.5, "20 at once and ten a second")
				conns[0].CloseNow()
				time.Sleep(time.Second)
				conn, status := dial(t, to)
				require.Equal(t, http.StatusSwitchingProtocols, status, "a place is back")
				conns[0] = conn
				if name == "server" {
					require.NoError(t, newServer(client).connections.Limiter("ada").Reset(ctx))
					time.Sleep(10 * time.Second)
					for _, conn := range conns {
						_, _, err := conn.Read(ctx)
						require.Error(t, err, "its place is lost")
					}
				}
				for _, conn := range conns {
					conn.CloseNow()
				}
				time.Sleep(20 * time.Second)
				each, err := newServer(client).connections.Limiter("ada").Peek(ctx)
				require.NoError(t, err)
				assert.EqualValues(t, 3, each[0].Remaining)
			})
		})
	}
}
