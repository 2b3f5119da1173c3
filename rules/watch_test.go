package rules

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
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
