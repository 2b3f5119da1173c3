package rules

import (
	"context"
	"errors"
	"fmt"
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

// settle is the time from the last change of a file to a check, and between checks.
const settle = 100 * time.Millisecond

// sleepAndWait lets time pass, and waits until all goroutines wait.
func sleepAndWait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// polled is a file that is followed on a fake clock, without a notifier.
type polled struct {
	*redistest.Fixture
	*watch
	lost chan error // an error makes Run check the file

	mu      sync.Mutex
	results []error
	at      []time.Time
}

func newPolled(f *redistest.Fixture, text string, opts ...WatchOption) *polled {
	p := &polled{Fixture: f, lost: make(chan error)}
	path := filepath.Join(f.TempDir(), "rules.yaml")
	write(f, path, text)
	p.watch = newWatch(path, append([]WatchOption{OnReload(p.add)}, opts...))
	require.NoError(f, p.files.Reload())
	return p
}

// run follows the file until the end of the test.
func (p *polled) run() (end func()) {
	ctx, cancel := context.WithCancel(p.Context())
	p.Cleanup(func() {
		cancel()
		sleepAndWait(time.Minute)
	})
	go rulefile.Run[int](ctx, &p.files, nil, nil, p.lost)
	sleepAndWait(time.Millisecond)
	return cancel
}

func (p *polled) add(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.results, p.at = append(p.results, err), append(p.at, time.Now())
}

// reported returns the results of all reloads.
func (p *polled) reported() []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.results)
}

// put writes the file in place.
func (p *polled) put(text string) { write(p, p.files.Path, text) }

// change writes rules of these names in place, and sends a notification.
func (p *polled) change(names ...string) {
	p.put(named(names...))
	p.lost <- errors.New("some")
}

func (p *polled) names() []string { return namesOf(p.set) }

func TestWatch_NoNotifications_PollReloads(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, _ *rratelimiter.Client) {
		p := newPolled(f, named("a"))
		end := p.run()
		sleepAndWait(time.Minute + 500*time.Millisecond)
		require.Empty(t, p.reported(), "the file has not changed")
		p.put(named("b"))
		sleepAndWait(14 * time.Second) // 74.5 s
		assert.Empty(t, p.reported())
		sleepAndWait(time.Second)
		assert.Equal(t, []error{nil}, p.reported())
		assert.Equal(t, []string{"b"}, p.names())
		require.NoError(t, os.Remove(p.files.Path))
		sleepAndWait(5 * time.Minute)
		assert.Len(t, p.reported(), 2, "once")
		p.put(named("b"))
		sleepAndWait(time.Minute)
		require.Len(t, p.reported(), 3)
		assert.NoError(t, p.reported()[2], "the same file exists again")
		end()
		sleepAndWait(time.Second)
		p.put(named("c"))
		sleepAndWait(time.Minute)
		assert.Len(t, p.reported(), 3)
	})
}

// The next change comes without a notification, and waits for the poll.
func TestWatch_ChangeBeforeTheFirstNotification_IsReloaded(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, _ *rratelimiter.Client) {
		p := newPolled(f, named("a"), PollEvery(time.Hour))
		p.put(named("b"))
		p.run()
		sleepAndWait(time.Second)
		assert.Equal(t, []string{"b"}, p.names())
		p.put(named("c"))
		sleepAndWait(50 * time.Minute)
		assert.Equal(t, []string{"b"}, p.names())
		sleepAndWait(10 * time.Minute)
		assert.Equal(t, []string{"c"}, p.names())
	})
}

// Polls that come faster than a file settles do not delay its check for ever.
func TestWatch_FastPolls_ReadTheFile(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, _ *rratelimiter.Client) {
		p := newPolled(f, named("a"), PollEvery(settle/2))
		p.run()
		p.put(named("b"))
		sleepAndWait(5 * time.Second)
		assert.Equal(t, []string{"b"}, p.names())
	})
}

// A file is read once it has not changed for a while, and applied if the next read is equal.
func TestWatch_SeveralChanges_AreReadOnce(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, _ *rratelimiter.Client) {
		p := newPolled(f, named("a"), PollEvery(time.Hour))
		p.run()
		for i := range 3 {
			p.change("a", "b", fmt.Sprint("c", i))
			sleepAndWait(settle / 2)
		}
		assert.Empty(t, p.reported())
		begin := time.Now()
		sleepAndWait(time.Second)
		require.Len(t, p.reported(), 1)
		assert.Equal(t, settle+settle/2, p.at[0].Sub(begin))
		for i := range 30 {
			p.change("x", fmt.Sprint("y", i))
			sleepAndWait(settle / 2)
		}
		assert.Len(t, p.reported(), 1)
		sleepAndWait(settle + settle/2)
		assert.Len(t, p.reported(), 2)
	})
}

// Neither a read between two writes is applied, nor a read during a long write.
func TestWatch_FileWrittenInPlace_IsNeverTakenHalfWritten(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, _ *rratelimiter.Client) {
		p := newPolled(f, named("a"), PollEvery(time.Hour))
		p.run()
		sleepAndWait(time.Second)
		p.change("b")
		sleepAndWait(settle + settle/2)
		p.put(named("b", "c")) // without a notification
		sleepAndWait(time.Second)
		assert.Equal(t, []string{"b", "c"}, p.names())
		assert.Equal(t, []error{nil}, p.reported())
		written := []string{"d"}
		for range 100 { // 5 s
			written = append(written, fmt.Sprint("e", len(written)))
			p.change(written...)
			sleepAndWait(settle / 2)
			require.Equal(t, []string{"b", "c"}, p.names())
		}
		sleepAndWait(time.Second)
		assert.Equal(t, written, p.names())
		assert.Equal(t, []error{nil, nil}, p.reported())
	})
}

// The problem is reported once, and the file is applied once it is stable.
func TestWatch_FileThatChangesAllTheTime_IsReported(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, _ *rratelimiter.Client) {
		p := newPolled(f, named("a"), PollEvery(time.Hour))
		p.run()
		sleepAndWait(time.Second)
		for i := range 300 { // 30 s
			p.change("b", fmt.Sprint("c", i))
			sleepAndWait(settle)
		}
		require.Len(t, p.reported(), 1)
		assert.ErrorContains(t, p.reported()[0], "rules.yaml: it changes all the time: write another file and rename it")
		p.change("a") // as at the start
		sleepAndWait(time.Second)
		require.Len(t, p.reported(), 2)
		assert.NoError(t, p.reported()[1])
		assert.Equal(t, []string{"a"}, p.names())
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
