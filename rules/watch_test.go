package rules

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// watched is a file that is followed, and what was told of it.
type watched struct {
	*testing.T
	*Set
	path string
	told chan error
}

// following follows a file by what the system tells alone, unless options say otherwise.
func following(t *testing.T, path string, opts ...WatchOption) *watched {
	w := &watched{t, nil, path, make(chan error, 100)}
	ctx, end := context.WithCancel(t.Context())
	t.Cleanup(end)
	opts = append([]WatchOption{PollEvery(time.Hour), OnReload(func(err error) { w.told <- err })}, opts...)
	set, err := Watch(ctx, path, opts...)
	require.NoError(t, err)
	w.Set = set
	return w
}

// wait waits until something is told.
func (w *watched) wait() error {
	w.Helper()
	select {
	case err := <-w.told:
		return err
	case <-time.After(time.Minute):
		w.Fatal("nothing is told in a minute")
		return nil
	}
}

// becomes waits for a reload, after which the rules have these names.
func (w *watched) becomes(names ...string) {
	w.Helper()
	require.NoError(w, w.wait())
	w.is(names...)
}

func (w *watched) is(names ...string) {
	w.Helper()
	var are []string
	for _, r := range w.file().rules {
		are = append(are, r.name)
	}
	assert.Equal(w, names, are)
}

func write(t testing.TB, path, text string) {
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// put writes another file and renames it.
func put(t testing.TB, path, text string) {
	write(t, path+".new", text)
	require.NoError(t, os.Rename(path+".new", path))
}

// named is a file of rules of these names.
func named(names ...string) string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for _, name := range names {
		fmt.Fprintf(&b, "  - {name: %s, key: ip, limits: 10/s}\n", name)
	}
	return b.String()
}

// TestWatch: files that are written in place, renamed, removed, made again and bad.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.yaml")
	_, err := Watch(t.Context(), path)
	require.ErrorIs(t, err, os.ErrNotExist)
	write(t, path, "rules: 5")
	_, err = Watch(t.Context(), path)
	require.ErrorContains(t, err, "want a list")

	write(t, path, named("a"))
	w := following(t, path)
	w.is("a")

	write(t, path, named("b")) // in place: it is empty first, for as long as the machine likes
	err = w.wait()
	for err != nil && strings.Contains(err.Error(), "empty") {
		err = w.wait()
	}
	require.NoError(t, err)
	w.is("b")

	put(t, path, named("c")) // as editors do
	w.becomes("c")

	require.NoError(t, os.Rename(path, path+"~")) // as others do
	assert.ErrorIs(t, w.wait(), os.ErrNotExist)
	w.is("c")
	put(t, path, named("d"))
	w.becomes("d")

	put(t, path, named("e")+"  - {nam: x}\n")
	assert.ErrorContains(t, w.wait(), `rules.yaml:3:6: rules[1].nam: unknown field "nam"`)
	w.is("d")
	put(t, path, "")
	assert.ErrorContains(t, w.wait(), "the file is empty")
	w.is("d")
	put(t, path, named("d")) // right again, as it was
	w.becomes("d")

	require.NoError(t, os.Remove(path))
	assert.ErrorIs(t, w.wait(), os.ErrNotExist)
	require.NoError(t, os.Mkdir(path, 0o700))
	assert.ErrorContains(t, w.wait(), "it is a directory")
	w.is("d")
	require.NoError(t, os.Remove(path))
	assert.ErrorIs(t, w.wait(), os.ErrNotExist)
	require.NoError(t, os.WriteFile(path+".new", nil, 0o600))
	require.NoError(t, os.Truncate(path+".new", 100<<20))
	require.NoError(t, os.Rename(path+".new", path))
	assert.ErrorContains(t, w.wait(), "104857600 bytes")
	w.is("d")
	put(t, path, named("f"))
	w.becomes("f")
	assert.Empty(t, w.told)
}

// TestWatchAConfigMap: Kubernetes changes the link ..data, to which the file's own link leads.
func TestWatchAConfigMap(t *testing.T) {
	dir := t.TempDir()
	mount := func(version string, text string) {
		require.NoError(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		write(t, filepath.Join(dir, version, "rules.yaml"), text)
		require.NoError(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
		require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	mount("..1", named("a"))
	path := filepath.Join(dir, "rules.yaml")
	require.NoError(t, os.Symlink(filepath.Join("..data", "rules.yaml"), path))
	w := following(t, path)
	w.is("a")
	for i, name := range []string{"b", "c", "d"} {
		mount(fmt.Sprintf("..%d", i+2), named(name))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..%d", i+1))))
		w.becomes(name)
	}
	// The same content elsewhere is no change.
	mount("..9", named("d"))
	mount("..10", named("e"))
	w.becomes("e")
	assert.Empty(t, w.told)
}

// TestWatchALink into another directory, whose target changes.
func TestWatchALink(t *testing.T) {
	here, there := t.TempDir(), t.TempDir()
	target := filepath.Join(there, "x.yaml")
	write(t, target, named("a"))
	path := filepath.Join(here, "rules.yaml")
	require.NoError(t, os.Symlink(target, path))
	w := following(t, path)
	for _, name := range []string{"b", "c"} { // by a look at the start, and by news
		put(t, target, named(name))
		w.becomes(name)
	}
}

// TestWatchALinkOnTheWay: one to a directory, as releases change it, before or behind another link.
func TestWatchALinkOnTheWay(t *testing.T) {
	for name, path := range map[string]string{"direct": "current/rules.yaml", "behind a link": "etc/rules.yaml"} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			release := func(version string) {
				require.NoError(t, os.Mkdir(filepath.Join(base, version), 0o700))
				write(t, filepath.Join(base, version, "rules.yaml"), named(version))
				require.NoError(t, os.Symlink(version, filepath.Join(base, "next")))
				require.NoError(t, os.Rename(filepath.Join(base, "next"), filepath.Join(base, "current")))
			}
			release("a")
			require.NoError(t, os.Mkdir(filepath.Join(base, "etc"), 0o700))
			require.NoError(t, os.Symlink("../current/../current/rules.yaml", filepath.Join(base, "etc", "rules.yaml")))
			w := following(t, filepath.Join(base, path))
			for _, version := range []string{"b", "c"} { // by a look at the start, and by news
				release(version)
				w.becomes(version)
			}
		})
	}
}

// TestWatchADirectoryThatIsReplaced: by a rename, of which its own news tell.
func TestWatchADirectoryThatIsReplaced(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "etc")
	require.NoError(t, os.Mkdir(dir, 0o700))
	write(t, filepath.Join(dir, "rules.yaml"), named("a"))
	w := following(t, filepath.Join(dir, "rules.yaml"))
	put(t, w.path, named("b"))
	w.becomes("b")
	require.NoError(t, os.Mkdir(filepath.Join(base, "new"), 0o700))
	write(t, filepath.Join(base, "new", "rules.yaml"), named("c"))
	require.NoError(t, os.Rename(dir, filepath.Join(base, "old")))
	require.NoError(t, os.Rename(filepath.Join(base, "new"), dir))
	for err := w.wait(); err != nil; err = w.wait() { // it may be seen in between
	}
	w.is("c")
	put(t, w.path, named("d"))
	w.becomes("d")
}

// TestWatchADirectoryThatGoes: by the poll, since nobody tells of it.
func TestWatchADirectoryThatGoes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etc")
	require.NoError(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "rules.yaml")
	write(t, path, named("a"))
	w := following(t, path, PollEvery(50*time.Millisecond))
	require.NoError(t, os.RemoveAll(dir))
	assert.ErrorIs(t, w.wait(), os.ErrNotExist)
	require.NoError(t, os.Mkdir(dir, 0o700))
	write(t, path, named("b"))
	for err := w.wait(); err != nil; err = w.wait() { // it may be seen before it is written
	}
	w.is("b")
}

// pass lets time pass, and what happens in it happen.
func pass(d time.Duration) {
	redistest.Pass(d)
	synctest.Wait()
}

// record is what was told, and when.
type record struct {
	mu  sync.Mutex
	all []error
	at  []time.Time
}

func (r *record) add(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all, r.at = append(r.all, err), append(r.at, time.Now())
}

func (r *record) told() ([]error, []time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all), slices.Clone(r.at)
}

// TestTheFirstRatesFail: Watch returns all the same, whoever listens, and they are tried again.
func TestTheFirstRatesFail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, "rules: [{name: a, limits: {redisson: q, rate: 5/s}}]")
	told := make(chan error)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	set, err := Watch(ctx, path, Rates(rratelimiter.New(nil)), OnReload(func(err error) { told <- err }))
	require.NoError(t, err)
	assert.ErrorIs(t, <-told, rratelimiter.ErrNoClient)
	assert.Equal(t, 1, set.Len())
}

// settle is the time from the last change of a file to a look, and from that to the next one.
const settle = 100 * time.Millisecond

// run follows the file without a notifier. An error tells of a change.
func (w *watch) run(ctx context.Context, lost <-chan error) {
	go rulefile.Run[int](ctx, &w.files, nil, nil, lost)
}

// TestPoll: without news of the system the file is looked at all the same. The clock is the test's.
func TestPoll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, named("a"))
	guardtest.Run(t, func(b *redistest.Fixture, _ *rratelimiter.Client) {
		var r record
		told := func() []error { all, _ := r.told(); return all }
		w := newWatch(path, []WatchOption{OnReload(r.add)})
		require.NoError(b, w.files.Reload())
		ctx, end := context.WithCancel(b.Context())
		w.run(ctx, nil)
		pass(time.Minute + 500*time.Millisecond)
		require.Empty(b, told()) // it has not changed
		write(b, path, named("b"))
		pass(14 * time.Second) // 74.5 s
		assert.Empty(b, told())
		pass(time.Second)
		assert.Equal(b, []error{nil}, told())
		assert.Equal(b, "b", w.set.file().rules[0].name)
		require.NoError(b, os.Remove(path))
		pass(5 * time.Minute)
		assert.Len(b, told(), 2) // once
		write(b, path, named("b"))
		pass(time.Minute)
		require.Len(b, told(), 3)
		assert.NoError(b, told()[2]) // there again, as it was
		end()
		pass(time.Second)
		write(b, path, named("c"))
		pass(time.Minute)
		assert.Len(b, told(), 3)
	})
}

// TestAChangeBeforeAnyNews: the file is looked at once when it is listened to.
func TestAChangeBeforeAnyNews(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, named("a"))
	guardtest.Run(t, func(b *redistest.Fixture, _ *rratelimiter.Client) {
		w := newWatch(path, []WatchOption{PollEvery(time.Hour)})
		require.NoError(b, w.files.Reload())
		write(b, path, named("b"))
		ctx, end := context.WithCancel(b.Context())
		w.run(ctx, nil)
		pass(time.Second)
		assert.Equal(b, "b", w.set.file().rules[0].name)
		end()
		pass(time.Second)
	})
}

// TestDebounce: what is written bit by bit is read when it is quiet, and taken when it stays the same.
func TestDebounce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, named("a"))
	guardtest.Run(t, func(b *redistest.Fixture, _ *rratelimiter.Client) {
		var r record
		told := func() []time.Time { _, at := r.told(); return at }
		w := newWatch(path, []WatchOption{OnReload(r.add), PollEvery(time.Hour)})
		require.NoError(b, w.files.Reload())
		ctx, end := context.WithCancel(b.Context())
		lost := make(chan error)
		w.run(ctx, lost)
		pass(time.Millisecond) // the loop is there
		for i := range 3 {
			write(b, path, named("a", "b", fmt.Sprint("c", i)))
			lost <- errors.New("some")
			pass(50 * time.Millisecond)
		}
		assert.Empty(b, told())
		begin := time.Now()
		pass(time.Second)
		require.Len(b, told(), 1)
		assert.Equal(b, 2*settle-50*time.Millisecond, told()[0].Sub(begin))
		for i := range 30 {
			write(b, path, named("x", fmt.Sprint("y", i)))
			lost <- errors.New("some")
			pass(50 * time.Millisecond)
		}
		assert.Len(b, told(), 1)
		pass(2*settle - 50*time.Millisecond)
		assert.Len(b, told(), 2)
		end()
		pass(time.Minute)
	})
}

// TestWatch_FileWrittenInPlace_IsNeverTakenHalfWritten: neither by a look between two writes, nor since it is
// written for long.
func TestWatch_FileWrittenInPlace_IsNeverTakenHalfWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, named("a"))
	guardtest.Run(t, func(b *redistest.Fixture, _ *rratelimiter.Client) {
		var r record
		w := newWatch(path, []WatchOption{OnReload(r.add), PollEvery(time.Hour)})
		require.NoError(b, w.files.Reload())
		ctx, end := context.WithCancel(b.Context())
		lost := make(chan error)
		w.run(ctx, lost)
		pass(time.Second)
		reports := func() []error { all, _ := r.told(); return all }
		names := func() (all []string) {
			for _, rule := range w.set.file().rules {
				all = append(all, rule.name)
			}
			return all
		}
		write(b, path, named("b")) // of which the system notifies, but not of what follows
		lost <- errors.New("some")
		pass(settle + settle/2)
		write(b, path, named("b", "c"))
		pass(time.Second)
		assert.Equal(b, []string{"b", "c"}, names())
		assert.Equal(b, []error{nil}, reports())
		written := []string{"d"}
		for range 100 { // 5 s
			written = append(written, fmt.Sprint("e", len(written)))
			write(b, path, named(written...))
			lost <- errors.New("some")
			pass(settle / 2)
			require.Equal(b, []string{"b", "c"}, names())
		}
		pass(time.Second)
		assert.Equal(b, written, names())
		assert.Equal(b, []error{nil, nil}, reports())
		end()
		pass(time.Second)
	})
}

// TestWatch_FileThatChangesAllTheTime_IsReported once, and taken when it stays.
func TestWatch_FileThatChangesAllTheTime_IsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, named("a"))
	guardtest.Run(t, func(b *redistest.Fixture, _ *rratelimiter.Client) {
		var r record
		w := newWatch(path, []WatchOption{OnReload(r.add), PollEvery(time.Hour)})
		require.NoError(b, w.files.Reload())
		ctx, end := context.WithCancel(b.Context())
		lost := make(chan error)
		w.run(ctx, lost)
		pass(time.Second)
		for i := range 300 { // 30 s
			write(b, path, named("b", fmt.Sprint("c", i)))
			lost <- errors.New("some")
			pass(settle)
		}
		reports, _ := r.told()
		require.Len(b, reports, 1)
		assert.ErrorContains(b, reports[0], "rules.yaml: it changes all the time: write another file and rename it")
		write(b, path, named("a")) // as it was
		lost <- errors.New("some")
		pass(time.Second)
		reports, _ = r.told()
		require.Len(b, reports, 2)
		assert.NoError(b, reports[1])
		assert.Equal(b, "a", w.set.file().rules[0].name)
		end()
		pass(time.Second)
	})
}

// TestRates: those that the file states are set at the start and on each change, and tried again where that fails.
func TestRates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	stated := func(rate string) string {
		return "rules:\n  - {name: a, limits: {redisson: q, rate: " + rate + "}}\n"
	}
	write(t, path, stated("5/s"))
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		var r record
		told := func() []error { all, _ := r.told(); return all }
		w := newWatch(path, []WatchOption{OnReload(r.add), Rates(client)})
		require.NoError(b, w.files.Reload())
		require.NoError(b, w.setRates(b.Context()))
		ctx, end := context.WithCancel(b.Context())
		w.run(ctx, nil)
		rate := func() int64 {
			is, err := client.Limiter("q").Config(b.Context())
			require.NoError(b, err)
			return is.Permits
		}
		assert.EqualValues(b, 5, rate())
		// Another who changes the rate is left in peace until the file changes.
		require.NoError(b, client.Limiter("q").SetRate(b.Context(), rratelimiter.Rate{Permits: 9, Interval: time.Second}))
		pass(time.Minute)
		assert.EqualValues(b, 9, rate())
		write(b, path, stated("7/s"))
		pass(time.Minute)
		assert.EqualValues(b, 7, rate())
		assert.Equal(b, []error{nil}, told())
		b.Redis.SetError("LOADING")
		write(b, path, stated("8/s"))
		pass(time.Minute)
		require.Len(b, told(), 3) // the rules are there, the rate is not
		assert.NoError(b, told()[1])
		assert.ErrorContains(b, told()[2], `the rate of "q", of the rule "a": `)
		b.Redis.SetError("")
		pass(time.Minute)
		assert.EqualValues(b, 8, rate())
		require.Len(b, told(), 4)
		assert.NoError(b, told()[3])
		end()
		pass(time.Second)
	})
}

// holding is a client of Redis that holds one command back for a while, as a connection that is made meanwhile does.
type holding struct {
	rueidis.Client
	next  atomic.Bool // changes a rate, and is the one
	while time.Duration
}

func (c *holding) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	if command.Commands()[0] == "EVALSHA" && c.next.CompareAndSwap(true, false) {
		pass(c.while)
	}
	return c.Client.Do(ctx, command)
}

// TestTheNewestRatesStay: what is still being set for a file before does not come behind them.
func TestTheNewestRatesStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	stated := func(rate string) string {
		return "rules:\n  - {name: a, limits: {redisson: q, rate: " + rate + "}}\n"
	}
	write(t, path, stated("5/s"))
	guardtest.Run(t, func(b *redistest.Fixture, _ *rratelimiter.Client) {
		slow := &holding{Client: b.Conn, while: 35 * time.Second} // until behind the newer one
		client := rratelimiter.New(slow)
		var r record
		w := newWatch(path, []WatchOption{OnReload(r.add), Rates(client)})
		require.NoError(b, w.files.Reload())
		require.NoError(b, w.setRates(b.Context()))
		ctx, end := context.WithCancel(b.Context())
		w.run(ctx, nil)
		slow.next.Store(true)
		write(b, path, stated("7/s"))
		pass(w.files.Every + 2*time.Second)
		write(b, path, stated("8/s"))
		pass(3 * time.Minute)
		is, err := client.Limiter("q").Config(b.Context())
		require.NoError(b, err)
		assert.EqualValues(b, 8, is.Permits)
		told, _ := r.told()
		require.Len(b, told, 4)
		assert.ErrorIs(b, told[1], context.DeadlineExceeded, "of the 7/s")
		assert.NoError(b, told[3])
		end()
		pass(time.Minute)
	})
}

// TestWhoeverIsToldPanics: the rules change all the same, and go on changing.
func TestWhoeverIsToldPanics(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, named("a"))
	guardtest.Run(t, func(b *redistest.Fixture, _ *rratelimiter.Client) {
		var r record
		w := newWatch(path, []WatchOption{OnReload(func(err error) {
			r.add(err)
			panic("no time")
		})})
		require.NoError(b, w.files.Reload())
		ctx, end := context.WithCancel(b.Context())
		w.run(ctx, nil)
		pass(time.Millisecond)
		for i, text := range []string{named("b"), "rules: 5", named("c")} {
			write(b, path, text)
			pass(time.Minute)
			all, _ := r.told()
			assert.Len(b, all, i+1)
		}
		assert.Equal(b, "c", w.set.file().rules[0].name)
		end()
		pass(time.Second)
	})
}
