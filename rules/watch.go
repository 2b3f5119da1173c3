package rules

import (
	"context"
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
// problem and the old rules stay in force, but the same problem only once. One goroutine calls it,
// one call at a time, and sees no change while the callback blocks. A panic of the callback is
// dropped.
func OnReload(report func(err error)) WatchOption {
	return func(w *watch) { w.onReload = report }
}

// Rates lets Watch set the rates that the file states for Redisson limiters ([Set.SetRates]):
// before it returns, and on each change. [OnReload] gets the errors, and each poll retries. Without
// Rates a limiter gets its rate with the first request, and another rate in Redis stays.
func Rates(client *rratelimiter.Client) WatchOption {
	return func(w *watch) { w.client = client }
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
// Requests use the old rules until the new ones are ready, and one request never uses both. Permits
// stay taken, since limiters are named by the domain, the rule's name and the key. A limit that
// keeps its policy and its interval continues to count.
func Watch(ctx context.Context, path string, opts ...WatchOption) (*Set, error) {
	w := newWatch(path, opts)
	if err := w.files.Reload(); err != nil {
		return nil, err
	}
	err := w.setRates(ctx)
	go func() {
		w.reportRates(err) // not in Watch itself: its caller may not listen yet
		yamlfile.Follow(ctx, &w.files)
	}()
	return w.set, nil
}

const pollInterval = 15 * time.Second

type watch struct {
	files    rulefile.Watcher
	client   *rratelimiter.Client
	onReload func(error)

	set        *Set
	lastError  string // that was reported of the file, "" for none
	ratesError string // the same of the rates
	ratesDue   bool   // rates are to be set
}

func newWatch(path string, opts []WatchOption) *watch {
	w := &watch{set: new(Set)}
	w.files = rulefile.Watcher{Path: path, Every: pollInterval, Apply: w.apply, Report: w.report}
	w.files.Settled = func(ctx context.Context) { w.reportRates(w.setRates(ctx)) }
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
	w.ratesDue = true
	w.set.inside().Replace(file)
	return nil
}

// report reports new rules, and each problem once.
func (w *watch) report(err error) {
	if errorChanged(&w.lastError, err) || err == nil {
		w.callback(err)
	}
}

// callback calls the callback of OnReload, whose panic is dropped.
func (w *watch) callback(err error) {
	if w.onReload != nil {
		defer func() { _ = recover() }()
		w.onReload(err)
	}
}

const ratesTimeout = 10 * time.Second

func (w *watch) setRates(ctx context.Context) error {
	if w.client == nil || !w.ratesDue {
		return nil
	}
	limited, end := context.WithTimeout(ctx, ratesTimeout)
	defer end()
	err := w.set.SetRates(limited, w.client)
	if ctx.Err() != nil {
		return nil
	}
	w.ratesDue = err != nil
	return err
}

// reportRates reports once that rates could not be set, or that they are set now.
func (w *watch) reportRates(err error) {
	if errorChanged(&w.ratesError, err) {
		w.callback(err)
	}
}

// errorChanged reports whether an error differs from the last one, and stores it.
func errorChanged(last *string, err error) bool {
	before := *last
	if *last = ""; err != nil {
		*last = err.Error()
	}
	return *last != before
}
