package rulefile

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Watcher applies files that have changed once they are stable. Run follows the files; Reload
// reads them once.
type Watcher struct {
	Path    string
	Belongs func(fs.DirEntry) bool // for Read
	Every   time.Duration          // between polls
	Signals <-chan os.Signal       // for each, Run reads the files at once, changed or not; nil for none

	// Apply puts files into force, or returns their problems. One call runs at a time.
	Apply func(sources []Source, problem *Problem) error
	// Report gets the result of Apply, for a change or for a signal.
	Report func(err error, signaled bool)
	// Idle runs after each check after which no other check is due. It may be nil.
	Idle func()

	mu      sync.Mutex
	last    [sha256.Size]byte // of the last read
	applied [sha256.Size]byte // of the last files applied
}

// checkPause is the time from a notification to a check, and between checks.
const checkPause = 100 * time.Millisecond

// Reload reads the files and applies them, changed or not.
func (w *Watcher) Reload() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	sources, problem := Read(w.Path, w.Belongs)
	w.last = sumOf(sources, problem)
	w.applied = w.last
	return w.Apply(sources, problem)
}

// check reads the files. It applies them if they have changed and are stable: if the last read
// returned the same. It reports whether another check is due.
func (w *Watcher) check(ctx context.Context) (pending bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sources, problem := readAll(w.Path, w.Belongs) // two equal checks are two equal reads
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
	w.Report(w.Apply(sources, problem), false)
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
// written for long, do not delay it: a file that is replaced is applied two checkPauses later.
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
			if due = w.check(ctx); due {
				timer.Reset(checkPause)
			} else if w.Idle != nil {
				w.Idle()
			}
			continue
		case _, ok := <-w.Signals:
			if !ok {
				w.Signals = nil
				continue
			}
			if w.Report(w.Reload(), true); w.Idle != nil {
				w.Idle()
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
			timer.Reset(checkPause)
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

// MaxBytes is the largest size of a file. A file of 10,000 rules has about 2 MB.
const MaxBytes = 16 << 20

// Source is the content of a file.
type Source struct {
	Name string
	Data []byte
}

// Read reads a file, or the files of a folder for which belongs returns true. Without belongs, a
// folder is a problem. It reads until two reads are equal, so that the contents belong to one point
// in time.
func Read(path string, belongs func(fs.DirEntry) bool) ([]Source, *Problem) {
	sources, problem := readAll(path, belongs)
	for range 3 {
		before := sumOf(sources, problem)
		if sources, problem = readAll(path, belongs); sumOf(sources, problem) == before {
			return sources, problem
		}
	}
	return nil, &Problem{File: path, Reason: "it changes while it is read: write another file and rename it"}
}

func readAll(path string, belongs func(fs.DirEntry) bool) (sources []Source, problem *Problem) {
	names := []string{path}
	if info, err := os.Stat(path); belongs != nil && err == nil && info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, unreadable(path, err)
		}
		names = nil
		for _, entry := range entries {
			if belongs(entry) {
				names = append(names, filepath.Join(path, entry.Name()))
			}
		}
	}
	for _, name := range names {
		data, problem := read(name)
		if problem != nil {
			return nil, problem
		}
		sources = append(sources, Source{name, data})
	}
	return sources, nil
}

// read reads a regular file. It refuses a pipe, whose opening would block until a writer opens it.
func read(name string) ([]byte, *Problem) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, unreadable(name, err)
	case info.IsDir():
		return nil, &Problem{File: name, Reason: "it is a directory, want a file"}
	case !info.Mode().IsRegular():
		return nil, &Problem{File: name, Reason: fmt.Sprintf("it is no regular file (%v)", info.Mode().Type())}
	case info.Size() > MaxBytes:
		return nil, tooLarge(name, info.Size())
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, unreadable(name, err)
	}
	defer func() { _ = file.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(file, MaxBytes+1))
	if err != nil {
		return nil, unreadable(name, err)
	}
	return data, nil
}

// tooLarge returns the problem of a file of more than MaxBytes.
func tooLarge(name string, size int64) *Problem {
	reason := fmt.Sprintf("it has %d bytes, want at most %d (%d MiB)", size, MaxBytes, MaxBytes>>20)
	return &Problem{File: name, Reason: reason}
}

func unreadable(name string, err error) *Problem {
	reason := err
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		reason = failed.Err // the problem has the name already
	}
	return &Problem{File: name, Reason: fmt.Sprintf("cannot be read: %v", reason), Err: err}
}

// maxLinks is the largest number of links on the way to a file, as on Linux.
const maxLinks = 40

// watchedDirs returns the directories in which a path may be replaced: the file's own, and that of
// each link on the way. If the path leads to a directory, that is one of them.
func watchedDirs(path string) map[string]bool {
	if absolute, err := filepath.Abs(path); err == nil { // else the working directory is gone
		path = absolute
	}
	var links []string
	file := follow(path, &links)
	dirs := map[string]bool{filepath.Dir(file): true}
	for _, link := range links {
		dirs[filepath.Dir(link)] = true
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		dirs[file] = true
	}
	return dirs
}

// follow returns the path without links, which it collects.
func follow(path string, links *[]string) string {
	dir := filepath.Dir(path)
	if dir == path {
		return path
	}
	path = filepath.Join(follow(dir, links), filepath.Base(path))
	target, err := os.Readlink(path)
	if err != nil || len(*links) == maxLinks {
		return path
	}
	*links = append(*links, path)
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(path), target)
	}
	return follow(target, links)
}
