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
	// Report gets the result of Apply for a change.
	Report func(err error)
	// Settled runs after each check after which no other check is due. It may be nil.
	Settled func(ctx context.Context)

	mu      sync.Mutex
	last    [sha256.Size]byte // of the last read
	applied [sha256.Size]byte // of the last files applied
}

// settleTime is the time from a notification to a check, and between checks.
const settleTime = 100 * time.Millisecond

// Reload reads the files and applies them, changed or not.
func (w *Watcher) Reload() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	sources, problem := Read(w.Path, w.Belongs)
	w.last = sumOf(sources, problem)
	w.applied = w.last
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
	if sum == w.applied {
		w.last = sum
		return false
	}
	if sum != w.last {
		w.last = sum
		return true
	}
	w.applied = sum
	w.Report(w.Apply(sources, problem))
	return false
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

// Run follows the files until ctx ends. Without a notifier, it polls. A notification or a poll makes a
// check due, unless one is due already. So others, of other files in the folder or of one that is
// written for long, do not delay it: a file that is replaced is applied two settleTimes later.
func Run[E any](ctx context.Context, w *Watcher, n Notifier, events <-chan E, lost <-chan error) {
	poll := time.NewTicker(w.Every)
	defer poll.Stop()
	dirs := make(map[string]bool)
	timer, due := time.NewTimer(0), true
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			w.listen(n, dirs)
			if due = w.Check(ctx); due {
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
		if !due {
			due = true
			timer.Reset(settleTime)
		}
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
