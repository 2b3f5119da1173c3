package rules

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

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
	go rulefile.Run[int](ctx, &p.files, nil, nil, nil)
	sleepAndWait(time.Millisecond)
}

func (p *polled) add(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.results = append(p.results, err)
}

// reported returns the results of all reloads.
func (p *polled) reported() []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.results)
}

// put writes the file in place.
func (p *polled) put(text string) { write(p, p.files.Path, text) }

func (p *polled) names() []string { return namesOf(p.set) }

// TestOnReload_BrokenFile_IsReportedOnce, and again if it was right meanwhile. internal/rulefile tests when
// a change is applied.
func TestOnReload_BrokenFile_IsReportedOnce(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, _ *rratelimiter.Client) {
		p := newPolled(f, named("a"))
		p.run()
		for i, tt := range []struct {
			text    string
			reports int
			names   string
		}{
			{"rules: 5", 1, "a"}, {"rules: 5 # the same problem", 1, "a"}, {named("b"), 2, "b"}, {"rules: 5", 3, "b"},
			{named("b"), 4, "b"}, {named("b") + "#", 5, "b"},
		} {
			p.put(tt.text)
			sleepAndWait(time.Minute)
			assert.Len(t, p.reported(), tt.reports, "%d", i)
			assert.Equal(t, []string{tt.names}, p.names())
		}
		require.NoError(t, os.Remove(p.files.Path))
		sleepAndWait(5 * time.Minute)
		assert.ErrorIs(t, p.reported()[5], os.ErrNotExist)
		assert.Len(t, p.reported(), 6)
	})
}

func TestOnReload_CallbackPanics_RulesChangeAndGoOnChanging(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, _ *rratelimiter.Client) {
		calls := 0
		p := newPolled(f, named("a"), OnReload(func(error) { calls++; panic("a callback") }))
		p.run()
		for i, text := range []string{named("b"), "rules: 5", named("c")} {
			p.put(text)
			sleepAndWait(time.Minute)
			assert.Equal(t, i+1, calls)
		}
		assert.Equal(t, []string{"c"}, p.names())
	})
}
