package rules

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"github.com/rratelimiter/rratelimiter/rules/internal/ruleset"
	"github.com/rratelimiter/rratelimiter/rules/internal/yamlfile"
)

// WatchOption is a setting of [Watch].
type WatchOption func(*watch)

// OnReload sets a callback for the result of each change of the file. It gets nil once new rules
// are in force, even if they equal those before a bad file. It gets an error if the file has a
// problem and the old rules stay in force, but the same problem only once. One call runs at a time.
// While a call for a change blocks, later changes wait. A panic of the callback is dropped.
func OnReload(report func(err error)) WatchOption {
	return func(w *watch) { w.onReload = report }
}

// Rates lets Watch set the rates that the file states for Redisson limiters ([Set.SetRates]):
// before it returns, and after each change, which does not wait for them. [OnReload] gets the
// errors, and each poll retries. Without Rates a limiter gets its rate with the first request, and
// another rate in Redis stays.
func Rates(client *rratelimiter.Client) WatchOption {
	return func(w *watch) { w.client = client }
}

// Reload makes Watch read the file for each signal, such as SIGHUP, also if it has not changed. [OnReload]
// gets each result.
func Reload(signals <-chan os.Signal) WatchOption {
	return func(w *watch) { w.files.Signals = signals }
}

// Watch loads the rules of a file and follows the file until ctx ends; then the rules stay. If the
// first file has a problem, Watch returns an error. If a later one has a problem, or is missing,
// the old rules stay, and [OnReload] gets the error.
//
// Ways to change the file:
//
//   - Replace it by a rename, as editors do. This is the safest way.
//   - Change a link on the way to it, as a Kubernetes ConfigMap does.
//   - Remove it and create it again.
//   - Write it in place. It is taken once two reads, a tenth of a second apart, are equal. A writer
//     that pauses for longer in the middle of a file is not detected.
//
// A change is applied two tenths of a second after its notification, whatever else happens in the
// folder. The file is also read every 15 seconds, since some file systems send no notifications.
//
// Requests use the old rules until the new ones are ready, and one request never uses both. Only the deadline
// is that of the newest for all. Permits stay taken, since limiters are named by the domain, the rule's name
// and the key. A limit that keeps its policy and its interval continues to count.
func Watch(ctx context.Context, path string, opts ...WatchOption) (*Set, error) {
	w := newWatch(path, opts)
	if err := w.files.Reload(); err != nil {
		return nil, err
	}
	err := w.setRates(ctx)
	go w.followRates(ctx, err) // not in Watch itself: its caller may not listen yet
	go yamlfile.Follow(ctx, &w.files)
	return (*Set)(w.set), nil
}

const pollInterval = 15 * time.Second

type watch struct {
	files    rulefile.Watcher
	client   *rratelimiter.Client
	onReload func(error)

	set        *ruleset.Set
	checked    chan bool   // the file is read, and its rates may be due
	ratesDue   atomic.Bool // rates are to be set
	calls      sync.Mutex  // of onReload
	lastError  string      // that was reported of the file, "" for none
	ratesError string      // the same of the rates
}

func newWatch(path string, opts []WatchOption) *watch {
	w := &watch{set: new(ruleset.Set), checked: make(chan bool, 1)}
	w.files = rulefile.Watcher{Path: path, Every: pollInterval, Apply: w.apply}
	w.files.Report = func(err error, signaled bool) { // new rules, and each problem once
		w.report(&w.lastError, err, err == nil || signaled)
	}
	w.files.Idle = func() {
		select {
		case w.checked <- true:
		default: // the rates are set after those that are set at the moment
		}
	}
	for _, opt := range opts {
		if opt != nil {
			opt(w)
		}
	}
	return w
}

func (w *watch) apply(sources []rulefile.Source, problem *rulefile.Problem) error {
	if problem != nil {
		return problem
	}
	file, problems := ruleset.Parse(w.files.Path, sources[0].Data)
	if len(problems) > 0 {
		return rulefile.Join(problems...)
	}
	w.set.Replace(file)
	w.ratesDue.Store(len(file.Rates) > 0)
	return nil
}

// report calls the callback of OnReload, whose panic is dropped, if an error differs from the last one of
// its kind, or always.
func (w *watch) report(last *string, err error, always bool) {
	w.calls.Lock()
	defer w.calls.Unlock()
	before := *last
	if *last = ""; err != nil {
		*last = err.Error()
	}
	if w.onReload == nil || *last == before && !always {
		return
	}
	defer func() { _ = recover() }()
	w.onReload(err)
}

const ratesTimeout = 10 * time.Second

// followRates reports the result of the first rates. Then it sets those of the latest file, beside the
// goroutine that follows the file, until ctx ends: Redis may hang. It reports once that rates could not
// be set, or that they are set.
func (w *watch) followRates(ctx context.Context, first error) {
	w.report(&w.ratesError, first, false)
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.checked:
			w.report(&w.ratesError, w.setRates(ctx), false)
		}
	}
}

func (w *watch) setRates(ctx context.Context) error {
	if w.client == nil || !w.ratesDue.Swap(false) {
		return nil
	}
	limited, end := context.WithTimeout(ctx, ratesTimeout)
	defer end()
	err := (*Set)(w.set).SetRates(limited, w.client)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		w.ratesDue.Store(true)
	}
	return err
}
