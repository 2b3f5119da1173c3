package rules

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/rratelimiter/rratelimiter"
)

// WatchOption is a setting of [Watch].
type WatchOption func(*watch)

// OnReload sets what is told of each change of the file: nil once the new rules are in force, also where a bad file is right again; and
// what is wrong, while the old rules stay in force. The same thing is told once, however often it is seen. It is called by one
// goroutine, one call at a time; while it blocks, no change is seen. What it panics with is dropped: it hurts no reload.
func OnReload(told func(err error)) WatchOption {
	return func(w *watch) {
		if w.told = told; told != nil {
			w.told = func(err error) {
				defer func() { _ = recover() }()
				told(err)
			}
		}
	}
}

// Rates lets Watch set the rates that the file states for limiters of Redisson's ([Set.SetRates]): before it returns, and on each
// change. What fails is told to [OnReload] and tried again with each poll.
func Rates(client *rratelimiter.Client) WatchOption {
	return func(w *watch) { w.client = client }
}

// PollEvery sets how often the file is looked at whether the system has told of a change or not, 15 s by default: there are file
// systems, and links, of which it does not tell. It panics where d is not above 0.
func PollEvery(d time.Duration) WatchOption {
	if d <= 0 {
		panic("rules: PollEvery: want a time above 0")
	}
	return func(w *watch) { w.every = d }
}

// Watch loads the rules of a file and follows the file until ctx ends; then the rules stay as they are. A first file that is bad is an
// error. Later a bad one, or none, leaves the rules as they are, and [OnReload] is told.
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
	if err := w.load(); err != nil {
		return nil, err
	}
	err := w.setRates(ctx) // told by the goroutine that tells all else: the caller may not listen yet
	var events <-chan fsnotify.Event
	var lost <-chan error
	if n, err := fsnotify.NewWatcher(); err == nil { // else the poll has to do
		w.notifier, events, lost = n, n.Events, n.Errors
		w.listen()
	}
	go func() {
		w.tellRates(err)
		w.run(ctx, events, lost, time.NewTicker(w.every))
	}()
	return w.set, nil
}

// watch follows a file.
type watch struct {
	path   string
	every  time.Duration
	client *rratelimiter.Client
	told   func(error)

	set   *Set
	last  [sha256.Size]byte // of what was read last
	seen  [sha256.Size]byte // of what was read and judged last
	right [sha256.Size]byte // of the content in force
	since time.Time         // since when each look reads something else; zero if it does not
	wrong string            // what was told last of the file, "" for nothing
	unset bool              // rates are to be set
	// Closed at the end of the last try to set them, where nobody waited for that; nil where it is known.
	trying <-chan struct{}
	// What was told last of them.
	wrongRates string
	notifier   *fsnotify.Watcher
	places     map[string]bool // directories that the notifier listens to
}

func newWatch(path string, opts []WatchOption) *watch {
	w := &watch{path: path, every: 15 * time.Second, told: func(error) {}, places: make(map[string]bool)}
	for _, opt := range opts {
		if opt != nil {
			opt(w)
		}
	}
	if w.told == nil {
		w.told = func(error) {}
	}
	return w
}

// load reads the file for the first time.
func (w *watch) load() error {
	data, err := read(w.path)
	if err != nil {
		return err
	}
	s, err := parse(w.path, data)
	if err != nil {
		return err
	}
	w.seen = sha256.Sum256(data)
	w.last, w.right, w.unset = w.seen, w.seen, true
	w.set = newSet(s)
	return nil
}

const (
	quiet    = 100 * time.Millisecond // without changes before a look, and from a look to the next one
	longest  = time.Second            // from a change to a look at the latest
	restless = 10 * time.Second       // for which a file may change all the time without being reported
)

// run follows the file until ctx ends.
func (w *watch) run(ctx context.Context, events <-chan fsnotify.Event, lost <-chan error, poll *time.Ticker) {
	defer poll.Stop()
	if w.notifier != nil {
		defer func() { _ = w.notifier.Close() }() // nobody listens any more
	}
	timer := time.NewTimer(0)
	timer.Stop()
	var first time.Time // of the changes that the timer is for
	changed := func() {
		now := time.Now()
		if first.IsZero() {
			first = now
		}
		timer.Reset(min(quiet, max(0, first.Add(longest).Sub(now))))
	}
	changed() // perhaps, before the notifier listened
	for {
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case _, ok := <-events:
			if !ok {
				events = nil
			}
			changed()
		case _, ok := <-lost: // some events were
			if !ok {
				lost = nil
			}
			changed()
		case <-poll.C:
			changed()
		case <-timer.C:
			first = time.Time{}
			w.listen()
			if !w.look(ctx) {
				timer.Reset(quiet)
				continue
			}
			w.tellRates(w.setRates(ctx))
		}
	}
}

// listen has the notifier listen to the directory of the file, and to that of each link on the way to it. Those that are there again
// are listened to again.
func (w *watch) listen() {
	if w.notifier == nil {
		return
	}
	wanted := make(map[string]bool)
	for _, place := range placesOf(w.path) {
		wanted[place] = true
	}
	for place := range w.places {
		if !wanted[place] {
			_ = w.notifier.Remove(place) // it may be gone
			delete(w.places, place)
		}
	}
	for place := range wanted {
		// One that cannot be listened to is left to the poll.
		if w.notifier.Add(place) == nil {
			w.places[place] = true
		}
	}
}

// look reads the file, and puts it into force if it has changed and stays as it is: if the look before read the
// same. It reports false if another look has to follow.
func (w *watch) look(ctx context.Context) bool {
	data, err := read(w.path)
	if ctx.Err() != nil {
		return true // the rules stay as they are from then on
	}
	sum := sha256.Sum256(data)
	if err != nil {
		sum = sha256.Sum256([]byte("error: " + err.Error()))
	}
	if sum != w.last && sum != w.seen {
		w.last = sum
		w.changes()
		return false
	}
	w.last, w.since = sum, time.Time{}
	if sum == w.seen {
		return true
	}
	w.seen = sum
	if err != nil || sum == w.right {
		w.tell(err)
		return true
	}
	s, err := parse(w.path, data)
	if ctx.Err() != nil {
		return true
	}
	if err != nil {
		w.tell(err)
		return true
	}
	w.right, w.unset = sum, true
	w.set.current.Store(s)
	w.wrong = ""
	w.told(nil)
	return true
}

// changes reports a file that changes all the time, and so is never taken.
func (w *watch) changes() {
	if w.since.IsZero() {
		w.since = time.Now()
	}
	if time.Since(w.since) >= restless {
		w.seen = [sha256.Size]byte{} // whatever comes is judged
		w.tell(&Error{File: w.path, Reason: "it changes all the time: write another file and rename it"})
	}
}

// tell tells what is wrong, or that nothing is any more, once.
func (w *watch) tell(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == w.wrong {
		return
	}
	w.wrong = text
	w.told(err)
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

// tellRates tells that rates could not be set, or that they are now, once.
func (w *watch) tellRates(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != w.wrongRates {
		w.wrongRates = text
		w.told(err)
	}
}
