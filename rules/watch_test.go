package rules

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"github.com/rratelimiter/rratelimiter/limit"
)

func namesOf(s *Set) []string { return s.own().File().Names() }

func write(t testing.TB, path, text string) {
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// named is a file of a rule of this name.
func named(name string) string { return "rules: [{name: " + name + ", key: ip, limits: 10/s}]" }

// Package yamlfile tests each way to change a file, and internal/rulefile when a change is applied.
func TestWatch_FirstFileIsWrong_Fails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	require.ErrorIs(t, redistest.Err(Watch(t.Context(), path)), os.ErrNotExist)
	write(t, path, "rules: 5")
	require.ErrorContains(t, redistest.Err(Watch(t.Context(), path)), "want a list")
}

// sleepAndWait lets time pass, and waits until all goroutines wait.
func sleepAndWait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// polled is a file that is followed on a fake clock, without a notifier.
type polled struct {
	*redistest.Fixture
	*watch

	mu      sync.Mutex
	results []error
}

func newPolled(f *redistest.Fixture, text string, opts ...WatchOption) *polled {
	p := &polled{Fixture: f}
	path := filepath.Join(f.TempDir(), "rules.yaml")
	write(f, path, text)
	p.watch = newWatch(path, append([]WatchOption{OnReload(p.add)}, opts...))
	require.NoError(f, p.files.Reload())
	return p
}

// run follows the file until the end of the test.
func (p *polled) run() {
	ctx, cancel := context.WithCancel(p.Context())
	p.Cleanup(func() {
		cancel()
		sleepAndWait(time.Minute)
	})
	go p.followRates(ctx, nil)
	go rulefile.Run[int](ctx, &p.files, nil, nil, nil)
	sleepAndWait(time.Millisecond)
}

// add records a result, and panics as a callback may.
func (p *polled) add(err error) {
	p.mu.Lock()
	p.results = append(p.results, err)
	p.mu.Unlock()
	panic("a callback")
}

// reported returns the results of all reloads.
func (p *polled) reported() []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.results)
}

// put writes the file in place.
func (p *polled) put(text string) { write(p, p.files.Path, text) }

// TestOnReload_BrokenFile_IsReportedOnce, and again if it was right meanwhile.
func TestOnReload_BrokenFile_IsReportedOnce(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, _ *rratelimiter.Client) {
		p := newPolled(f, named("a"))
		p.run()
		for i, tt := range []struct {
			text    string
			reports int
			name    string
		}{
			{"rules: 5", 1, "a"}, {"rules: 5 # the same problem", 1, "a"}, {named("b"), 2, "b"}, {"rules: 5", 3, "b"},
			{named("b"), 4, "b"}, {named("b") + "#", 5, "b"},
		} {
			p.put(tt.text)
			sleepAndWait(time.Minute)
			assert.Len(t, p.reported(), tt.reports, "%d", i)
			assert.Equal(t, []string{tt.name}, namesOf((*Set)(p.set)))
		}
	})
}

// TestReload_Signal_ReadsTheFileAtOnce: also one that has not changed, and each result is reported.
func TestReload_Signal_ReadsTheFileAtOnce(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, _ *rratelimiter.Client) {
		signals := make(chan os.Signal)
		p := newPolled(f, named("a"), Reload(signals))
		p.run()
		for i, text := range []string{named("b"), named("b"), "rules: 5", "rules: 5", named("c")} {
			p.put(text)
			signals <- syscall.SIGHUP
			synctest.Wait()
			require.Len(t, p.reported(), i+1)
			assert.Equal(t, text == "rules: 5", p.reported()[i] != nil)
		}
		assert.Equal(t, []string{"c"}, namesOf((*Set)(p.set)))
		sleepAndWait(time.Minute)
		assert.Len(t, p.reported(), 5)
		close(signals)
	})
}

// reload puts another text in force.
func reload(f *redistest.Fixture, set *Set, text string) {
	set.own().Replace(parsed(f, text).own().File())
}

// The rule has another position in the new file.
func TestMiddleware_Reload_KeepsTheState(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		set := parsed(t, "rules: [{name: a, match: /a, key: ip, limits: 3/h}]")
		handler := set.Middleware(client)(&ok{})
		assert.Equal(t, good, status(handler, "GET /a"))
		assert.Equal(t, good, status(handler, "GET /a"))
		reload(f, set, "rules: [{name: b, match: /b, key: ip, limits: 1/h}, {name: a, match: /a, key: ip, limits: 4/h}]")
		assert.Equal(t, "1", serve(handler, request("GET /a")).Header().Get("Ratelimit")[len(`"hour";r=`):][:1])
		assert.Equal(t, good, status(handler, "GET /a"))
		assert.Equal(t, many, status(handler, "GET /a"))
		reload(f, set, "rules: []")
		assert.Equal(t, good, status(handler, "GET /a"))
	})
}

// TestMiddleware_Reload_RequestsUnderWayMeetTheOldFile: one request never meets rules of two files.
func TestMiddleware_Reload_RequestsUnderWayMeetTheOldFile(t *testing.T) {
	const file = "match: all\nrules: [{name: %[1]s1, key: all, limits: 9/h}, {name: %[1]s2, key: all, limits: 9/h, cost: 2}]"
	for name, limited := range map[string]func(*Set, *rratelimiter.Client, httplimit.Option) http.Handler{
		"Middleware": func(s *Set, client *rratelimiter.Client, opt httplimit.Option) http.Handler {
			return s.Middleware(client, opt)(granted)
		},
		"ForwardAuth": func(s *Set, client *rratelimiter.Client, opt httplimit.Option) http.Handler {
			return s.ForwardAuth(client, opt)
		},
	} {
		guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
			var names []string
			set := parsed(t, fmt.Sprintf(file, "old"))
			handler := limited(set, client, httplimit.Report(func(_ *http.Request, o limit.Outcome) {
				names = append(names, o.Limiter)
				reload(f, set, fmt.Sprintf(file, "new"))
			}))
			for range 2 {
				assert.Equal(t, good, status(handler, "GET /"))
			}
			assert.Equal(t, []string{"old1", "old2", "new1", "new2"}, names, name)
		})
	}
}

// rated returns a file that states the rate of a Redisson limiter.
func rated(rate string) string {
	return "rules: [{name: a, limits: {redisson: q, rate: " + rate + "}}]\n"
}

// permits returns the permits of the limiter's rate.
func permits(f *redistest.Fixture, client *rratelimiter.Client) int64 {
	rate, err := client.Limiter("q").Config(f.Context())
	require.NoError(f, err)
	return rate.Permits
}

// Watch still returns the rules, and reports the error.
func TestRates_FirstRatesFail_AreReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, rated("5/s"))
	reported := make(chan error)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	set, err := Watch(ctx, path, Rates(rratelimiter.New(nil)), OnReload(func(err error) { reported <- err }))
	require.NoError(t, err)
	assert.ErrorIs(t, <-reported, rratelimiter.ErrNoClient)
	assert.Equal(t, 1, set.Len())
}

// Rates are set at the start and on each change, and again on each poll if that fails.
func TestRates_FileChanges_AreSet(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		p := newPolled(f, rated("5/s"), Rates(client))
		require.NoError(t, p.setRates(t.Context()))
		p.run()
		assert.EqualValues(t, 5, permits(f, client))
		// The rate that another program sets stays until the file changes.
		require.NoError(t, client.Limiter("q").SetRate(t.Context(), rratelimiter.Rate{Permits: 9, Interval: time.Second}))
		sleepAndWait(time.Minute)
		assert.EqualValues(t, 9, permits(f, client))
		p.put(rated("7/s"))
		sleepAndWait(time.Minute)
		assert.EqualValues(t, 7, permits(f, client))
		assert.Equal(t, []error{nil}, p.reported())
		f.Redis.SetError("LOADING")
		p.put(rated("8/s"))
		sleepAndWait(time.Minute)
		require.Len(t, p.reported(), 3, "the rules are in force, the rate is not set")
		assert.NoError(t, p.reported()[1])
		assert.ErrorContains(t, p.reported()[2], `the rate of "q", of the rule "a": `)
		f.Redis.SetError("")
		sleepAndWait(time.Minute)
		assert.EqualValues(t, 8, permits(f, client))
		require.Len(t, p.reported(), 4)
		assert.NoError(t, p.reported()[3])
	})
}

// TestRates_RedisHangs_FileIsInForceAtOnce: rates are set beside the goroutine that follows the file, one
// file at a time, and the last one wins.
func TestRates_RedisHangs_FileIsInForceAtOnce(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		p := newPolled(f, rated("5/s"), Rates(client))
		p.files.Every = time.Second
		require.NoError(t, p.setRates(t.Context()))
		p.run()
		f.Latency.Store(int64(time.Hour))
		for _, rate := range []string{"6/s", "7/s", "8/s"} {
			p.put(rated(rate))
			sleepAndWait(2 * time.Second)
			assert.Equal(t, rate, fmt.Sprintf("%d/s", p.set.File().Rates[0].Rate.Permits))
		}
		f.Latency.Store(0)
		sleepAndWait(2 * time.Hour) // replies under way arrive
		assert.EqualValues(t, 8, permits(f, client))
	})
}

// The limiter is alone, or has other limits beside it; one rule states the rate. SetRates keeps the
// state. A limiter that was lost with the data of Redis begins again.
func TestMiddleware_RedissonLimiter_SharesItsRate(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		set := parsed(t, `
rules:
  - {name: alone, match: /alone, limits: {redisson: paid, rate: 3/h}}
  - {name: both, match: /both, key: ip, limits: [2/h, {redisson: paid}]}`)
		handler := set.Middleware(client)(&ok{})
		assert.Equal(t, good, status(handler, "GET /both")) // that sets the rate
		f.Redis.FlushAll()
		require.NoError(t, set.SetRates(t.Context(), client))
		paid := client.Limiter("paid")
		is, err := paid.Config(t.Context())
		require.NoError(t, err)
		assert.Equal(t, rratelimiter.Rate{Permits: 3, Interval: time.Hour}, is)
		assert.Equal(t, good, status(handler, "GET /alone"))
		w := serve(handler, request("GET /both"))
		assert.Equal(t, good, w.Code)
		assert.Equal(t, `"1h";r=1;t=3960, "paid";r=1`, strings.ReplaceAll(w.Header().Get("Ratelimit"), "hour", "1h"))
		assert.Equal(t, good, status(handler, "GET /both"))
		assert.Equal(t, many, status(handler, "GET /both"))
		free := redistest.Available(t, paid)
		assert.Zero(t, free)
		// Another rate keeps the permits taken.
		next := parsed(t, `rules: [{name: alone, limits: {redisson: paid, rate: 5/h}}]`)
		require.NoError(t, next.SetRates(t.Context(), client))
		assert.EqualValues(t, 2, redistest.Available(t, paid))
		// The same rate writes nothing.
		before, sent := f.Redis.Dump(), f.Sent.Load()
		require.NoError(t, next.SetRates(t.Context(), client))
		assert.Equal(t, before, f.Redis.Dump())
		assert.EqualValues(t, 1, f.Sent.Load()-sent) // to read the rate
		f.Redis.FlushAll()
		for _, want := range []int{good, good, good, many} {
			assert.Equal(t, want, status(handler, "GET /alone"))
		}
	})
}
