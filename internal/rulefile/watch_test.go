package rulefile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// watched is a file that is followed on a fake clock. Its content is put into force, unless it is
// "broken".
type watched struct {
	*testing.T
	Watcher
	events chan string // notifications of the folder
	lost   chan error
	begin  time.Time

	mu      sync.Mutex
	current string
	results []string // with the time since begin
	settled []string // the content after each check without another
}

// watching runs a test with a file that is followed until the end of the test.
func watching(t *testing.T, every time.Duration, test func(w *watched)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &watched{T: t, events: make(chan string), lost: make(chan error), begin: time.Now()}
		w.Watcher = Watcher{Path: filepath.Join(t.TempDir(), "file"), Every: every, Apply: w.apply, Report: w.report}
		w.Idle = func() { w.settled = append(w.settled, w.current) }
		w.put("a")
		require.NoError(t, w.Reload())
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go Run(ctx, &w.Watcher, w, w.events, w.lost)
		synctest.Wait()
		test(w)
	})
}

func (w *watched) Add(string) error    { return nil }
func (w *watched) Remove(string) error { return nil }

func (w *watched) apply(sources []Source, problem *Problem) error {
	if problem != nil {
		return problem
	}
	text := string(sources[0].Data)
	if strings.HasPrefix(text, "broken") {
		return errors.New(text)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current = text
	return nil
}

func (w *watched) report(err error, _ bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := w.current
	if err != nil {
		text = err.Error()
	}
	w.results = append(w.results, fmt.Sprintf("%v: %s", time.Since(w.begin), text))
}

// reports returns the results so far, and forgets them.
func (w *watched) reports() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	results := w.results
	w.results = nil
	return results
}

func (w *watched) put(text string) { require.NoError(w, os.WriteFile(w.Path, []byte(text), 0o600)) }

// change writes the file, of which the folder notifies.
func (w *watched) change(text string) {
	w.put(text)
	w.events <- w.Path
}

// sleep lets time pass, and waits for the watcher.
func (w *watched) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestRun_FileChanges_IsAppliedAfterTwoChecks, whatever the interval of polls is, and whatever happens
// to other files of the folder.
func TestRun_FileChanges_IsAppliedAfterTwoChecks(t *testing.T) {
	const ms = time.Millisecond
	for _, every := range []time.Duration{10 * ms, 50 * ms, checkPause, time.Hour} {
		for _, other := range []time.Duration{0, 10 * ms, 50 * ms} {
			t.Run(fmt.Sprint(every, other), func(t *testing.T) {
				watching(t, every, func(w *watched) {
					ctx, end := context.WithCancel(w.Context())
					var others sync.WaitGroup
					if other > 0 {
						others.Go(func() {
							for tick := time.NewTicker(other); ctx.Err() == nil; <-tick.C {
								w.events <- "other"
							}
						})
					}
					w.sleep(time.Second)
					for i := range 31 {
						at, text := time.Since(w.begin), fmt.Sprint("version ", i)
						if i%3 == 2 {
							text = fmt.Sprint("broken ", i)
						}
						w.change(text)
						w.sleep(2 * checkPause)
						results := w.reports()
						if assert.Len(t, results, 1, "%v", at) {
							assert.Contains(t, results[0], text)
						}
						w.sleep(500 * time.Millisecond)
						assert.Empty(t, w.reports())
					}
					end()
					others.Wait()
				})
			})
		}
	}
}

func TestRun_NoNotification_PollFindsTheChange(t *testing.T) {
	watching(t, 15*time.Second, func(w *watched) {
		w.sleep(time.Minute + 500*time.Millisecond)
		w.put("b")
		w.sleep(time.Minute)
		assert.Equal(t, []string{"1m15.2s: b"}, w.reports())
		require.NoError(t, os.Remove(w.Path))
		w.sleep(5 * time.Minute)
		assert.Equal(t, []string{"2m15.2s: " + w.Path + ": cannot be read: no such file or directory"}, w.reports())
		w.put("b")
		w.lost <- errors.New("some notifications")
		w.sleep(time.Second)
		assert.Equal(t, []string{"7m0.7s: b"}, w.reports(), "the same file exists again")
	})
}

// TestRun_ChangeBeforeTheFirstNotification_IsFound: between the load of the file and the first check.
func TestRun_ChangeBeforeTheFirstNotification_IsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{T: t, begin: time.Now()}
		w.Watcher = Watcher{Path: filepath.Join(t.TempDir(), "file"), Every: time.Hour, Apply: w.apply, Report: w.report}
		w.put("a")
		require.NoError(t, w.Reload())
		w.put("b")
		ctx, end := context.WithCancel(t.Context())
		go Run[string](ctx, &w.Watcher, nil, nil, nil)
		w.sleep(time.Second)
		assert.Equal(t, []string{"100ms: b"}, w.reports())
		end()
		w.put("c")
		w.sleep(2 * time.Hour)
		assert.Empty(t, w.reports(), "the end of the context")
	})
}

// TestRun_FileWrittenInPlace_IsNeverTakenHalfWritten: neither a read between two writes is applied, nor
// one during a long write.
func TestRun_FileWrittenInPlace_IsNeverTakenHalfWritten(t *testing.T) {
	watching(t, time.Hour, func(w *watched) {
		w.change("b")
		w.sleep(checkPause + checkPause/2)
		w.put("b c") // without a notification
		w.sleep(time.Second)
		assert.Equal(t, []string{"300ms: b c"}, w.reports())
		assert.Equal(t, []string{"a", "b c"}, w.settled)
		text := "d"
		for range 100 { // 5 s
			text += "e"
			w.change(text)
			w.sleep(checkPause / 2)
			require.Empty(t, w.reports())
		}
		w.sleep(2 * checkPause)
		require.Len(t, w.reports(), 1)
		assert.Equal(t, text, w.current)
	})
}

// The path leads to a file or a directory, or through links that form a circle or lead nowhere.
func TestWatchedDirs_Links_IncludesTheirDirectories(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	watches := func(path string, want ...string) {
		assert.ElementsMatch(t, want, slices.Collect(maps.Keys(watchedDirs(path))), path)
	}
	current := filepath.Join(base, "current")
	require.NoError(t, os.Symlink("v1", current))
	watches(filepath.Join(current, "rules.yaml"), base, filepath.Join(base, "v1"))
	circle := filepath.Join(base, "circle")
	require.NoError(t, os.Symlink("./circle", circle))
	watches(circle, base)
	watches(filepath.Join(base, "no", "where", "rules.yaml"), filepath.Join(base, "no", "where"))
	far := filepath.Join(base, "far")
	require.NoError(t, os.Symlink(filepath.Join(base, "no", "rules.yaml"), far))
	watches(far, base, filepath.Join(base, "no"))
	watches(base, filepath.Dir(base), base)
}
