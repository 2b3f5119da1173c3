package rules

import (
	"context"
	"fmt"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// WatchOption is a setting of [Watch].
type WatchOption func(*watch)

// OnReload sets a function that gets the result of each change of the file: nil once the new rules are in force, also if a bad file is
// right again; and what is wrong, while the old rules stay in force. It gets the same problem once. It is called by one
// goroutine, one call at a time; while it blocks, no change is seen. What it panics with is dropped: it hurts no reload.
func OnReload(report func(err error)) WatchOption {
	return func(w *watch) {
		if w.onReload = report; report != nil {
			w.onReload = func(err error) {
				defer func() { _ = recover() }()
				report(err)
			}
		}
	}
}

// Rates lets Watch set the rates that the file states for limiters of Redisson's ([Set.SetRates]): before it returns, and on each
// change. [OnReload] gets what fails, and each poll tries it again.
func Rates(client *rratelimiter.Client) WatchOption {
	return func(w *watch) { w.client = client }
}

// PollEvery sets how often the file is read whether or not the system notifies of a change, 15 s by default: there are file
// systems, and links, of which it does not tell. It panics where d is not above 0.
func PollEvery(d time.Duration) WatchOption {
	if d <= 0 {
		panic("rules: PollEvery: want a time above 0")
	}
	return func(w *watch) { w.files.Every = d }
}

// Watch loads the rules of a file and follows the file until ctx ends; then the rules stay as they are. A first file that is bad is an
// error. Later a bad one, or none, leaves the rules as they are, and [OnReload] gets the error.
//
// The file may be replaced by a rename, as editors do, or by a link on the way to it that changes, as a Kubernetes
// ConfigMap does; it may be removed and made again. A file that is written in place is taken once two reads, a
// tenth of a second apart, are equal. A writer that pauses for longer in the middle of a file is not noticed:
// write another file and rename it.
//
// A reload costs requests nothing but the processor's time, of which it leaves some to them. They see the old rules until the new ones
// are ready, and one request never sees both. What was taken stays taken: limiters are named by the domain, the rule's name and the
// key, and where kind and interval of a limit stay the same it counts on.
func Watch(ctx context.Context, path string, opts ...WatchOption) (*Set, error) {
	w := newWatch(path, opts)
	if err := w.files.Reload(); err != nil {
		return nil, err
	}
	err := w.setRates(ctx)
	go func() {
		w.reportRates(err) // here, since the caller may not listen yet
		n, err := fsnotify.NewWatcher()
		if err != nil { // the poll has to do
			rulefile.Run[fsnotify.Event](ctx, &w.files, nil, nil, nil)
			return
		}
		defer func() { _ = n.Close() }() // nothing is left to do about it
		rulefile.Run(ctx, &w.files, n, n.Events, n.Errors)
	}()
	return w.set, nil
}

// watch follows a file.
type watch struct {
	files    rulefile.Watcher
	client   *rratelimiter.Client
	onReload func(error)

	set   *Set
	wrong string // what was reported last of the file, "" for nothing
	unset bool   // rates are to be set
	// Closed at the end of the last try to set them, where no call waited for that; nil where it is known.
	trying     <-chan struct{}
	wrongRates string // what was reported last of them
}

func newWatch(path string, opts []WatchOption) *watch {
	w := &watch{set: new(Set), onReload: func(error) {}}
	w.files = rulefile.Watcher{Path: path, Every: 15 * time.Second, Take: w.take, Report: w.report}
	w.files.Settled = func(ctx context.Context) { w.reportRates(w.setRates(ctx)) }
	for _, opt := range opts {
		if opt != nil {
			opt(w)
		}
	}
	if w.onReload == nil {
		w.onReload = func(error) {}
	}
	return w
}

// take puts a file into force.
func (w *watch) take(sources []rulefile.Source, problem *rulefile.Problem) error {
	if problem != nil {
		return (*Error)(problem)
	}
	s, err := parse(w.files.Path, sources[0].Data)
	if err != nil {
		return err
	}
	w.unset = true
	w.set.current.Store(s)
	return nil
}

// report reports new rules, and each problem once.
func (w *watch) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if err == nil || text != w.wrong {
		w.wrong = text
		w.onReload(err)
	}
}

// patience is how long rates may take to be set.
const patience = 10 * time.Second

// setRates sets the rates that are to be set.
func (w *watch) setRates(ctx context.Context) error {
	if w.client == nil || !w.unset {
		return nil
	}
	limited, end := context.WithTimeout(ctx, patience)
	defer end()
	err := w.tryRates(limited)
	if ctx.Err() != nil {
		return nil
	}
	w.unset = err != nil
	return err
}

// tryRates sets the rates, once those of the try before are: a call that takes longer than ctx may still take effect, and is not to
// come behind a newer one.
func (w *watch) tryRates(ctx context.Context) error {
	late := fmt.Errorf("rules: rates were not set within %v: %w", patience, context.DeadlineExceeded)
	if w.trying != nil {
		select {
		case <-w.trying:
		case <-ctx.Done():
			return late
		}
	}
	var err error
	file, done := w.set.file(), make(chan struct{})
	w.trying = done
	go func() {
		defer close(done)
		err = file.setRates(ctx, context.WithoutCancel(ctx), w.client)
	}()
	select {
	case <-done:
		w.trying = nil
		return err
	case <-ctx.Done():
		return late
	}
}

// reportRates reports that rates could not be set, or that they are now, once.
func (w *watch) reportRates(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != w.wrongRates {
		w.wrongRates = text
		w.onReload(err)
	}
}
