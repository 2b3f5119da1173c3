package rulefile

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"sync"
	"time"
)

// Watcher applies files that have changed once they are stable. Run follows the files; Check and
// Reload read them once.
type Watcher struct {
	Path    string
	Belongs func(fs.DirEntry) bool // for Read
	Every   time.Duration          // between polls

	// Apply puts files into force, or returns their problems. One call runs at a time.
	Apply func(sources []Source, problem *Problem) error
	// Report gets the result of Apply for a change, or an error if the files never become stable.
	Report func(err error)
	// Settled runs after each check after which no other check is due. It may be nil.
	Settled func(ctx context.Context)

	mu       sync.Mutex
	last     [sha256.Size]byte // of the last read
	applied  [sha256.Size]byte // of the last files applied
	unstable time.Time         // since when each check reads another content; zero if the files are stable
}

const (
	settleTime  = 100 * time.Millisecond // the time without changes before a check, and between checks
	maxDelay    = time.Second            // the longest time from a change to a check
	maxUnstable = 10 * time.Second       // the time of constant changes after which they are reported
)

// Reload reads the files and applies them, changed or not.
func (w *Watcher) Reload() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	sources, problem := Read(w.Path, w.Belongs)
	w.last = sumOf(sources, problem)
	w.applied, w.unstable = w.last, time.Time{}
	return w.Apply(sources, problem)
}

// Check reads the files. It applies them if they have changed and are stable: if the last read
// returned the same. It reports whether another check is due.
func (w *Watcher) Check(ctx context.Context) (pending bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sources, problem := Read(w.Path, w.Belongs)
	if ctx.Err() != nil {
		return false
	}
	sum := sumOf(sources, problem)
	if sum != w.last && sum != w.applied {
		w.last = sum
		w.changed()
		return true
	}
	w.last, w.unstable = sum, time.Time{}
	if sum != w.applied {
		w.applied = sum
		w.Report(w.Apply(sources, problem))
	}
	return false
}

// changed reports files that change all the time, and so are never stable.
func (w *Watcher) changed() {
	if w.unstable.IsZero() {
		w.unstable = time.Now()
	}
	if time.Since(w.unstable) >= maxUnstable {
		w.applied = [sha256.Size]byte{} // any content counts as a change
		w.Report(&Problem{File: w.Path, Reason: "it changes all the time: write another file and rename it"})
	}
}

// sumOf returns the hash of a read.
func sumOf(sources []Source, problem *Problem) (sum [sha256.Size]byte) {
	h := sha256.New()
	if problem != nil {
		_, _ = fmt.Fprintf(h, "problem %v", problem) // a hash returns no error
	}
	for _, s := range sources {
		_, _ = fmt.Fprintf(h, "%q %d ", s.Name, len(s.Data))
		_, _ = h.Write(s.Data)
	}
	h.Sum(sum[:0])
	return sum
}

// Notifier sends an event for each change in the added directories.
type Notifier interface {
	Add(dir string) error
	Remove(dir string) error
}

// Run follows the files until ctx ends. Without a notifier, it polls.
func Run[E any](ctx context.Context, w *Watcher, n Notifier, events <-chan E, lost <-chan error) {
	poll := time.NewTicker(w.Every)
	defer poll.Stop()
	dirs := make(map[string]bool)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var first time.Time // of the changes since the last check
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			first = time.Time{}
			w.listen(n, dirs)
			if w.Check(ctx) {
				timer.Reset(settleTime)
			} else if w.Settled != nil {
				w.Settled(ctx)
			}
			continue
		case _, ok := <-events:
			if !ok {
				events = nil
			}
		case _, ok := <-lost: // events were lost
			if !ok {
				lost = nil
			}
		case <-poll.C:
		}
		now := time.Now()
		if first.IsZero() {
			first = now
		}
		timer.Reset(min(settleTime, max(0, first.Add(maxDelay).Sub(now))))
	}
}

// listen adds the directories in which the files may be replaced to a notifier, and removes all
// others.
func (w *Watcher) listen(n Notifier, dirs map[string]bool) {
	if n == nil {
		return
	}
	wanted := watchedDirs(w.Path)
	for dir := range dirs {
		if !wanted[dir] {
			_ = n.Remove(dir) // it may not exist
			delete(dirs, dir)
		}
	}
	for dir := range wanted {
		if n.Add(dir) == nil { // on an error the polls remain
			dirs[dir] = true
		}
	}
}
