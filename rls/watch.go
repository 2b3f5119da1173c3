package rls

import (
	"context"
	"hash/maphash"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	quiet    = 100 * time.Millisecond // what changes at once is read once, and again so much later
	mostWait = time.Second            // while it goes on changing
	lookAll  = 10 * time.Second       // where nothing has told of a change: a file system may not
)

// Watch reads the configuration anew whenever its files change, until ctx ends, and returns its error then. It
// sees files that are written, renamed and removed, and the swap of a symbolic link by which Kubernetes updates a
// ConfigMap; and it looks every ten seconds. Files are taken once two reads, a tenth of a second apart, are equal.
// A writer that pauses for longer in the middle of a file is not noticed: write another file and rename it. What
// is wrong with files is logged and counted, and the rules before stay in force.
func (s *Server) Watch(ctx context.Context) error {
	var events <-chan fsnotify.Event
	var lost <-chan error
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		s.config.Log.Warn("rls: changes are seen late", "path", s.config.Path, "error", err)
	} else {
		defer func() { _ = watcher.Close() }() // nobody watches any more
		events, lost = watcher.Events, watcher.Errors
	}
	poll := time.NewTicker(lookAll)
	defer poll.Stop()
	var due <-chan time.Time // when to read
	var latest time.Time     // when to read at the latest
	look := func() {
		s.follow(watcher)
		again, err := s.reload()
		if err != nil {
			s.config.Log.Error("rls: the configuration is wrong, the one before stays in force", "path", s.config.Path, "error", err)
		}
		if due = nil; again {
			due = time.After(quiet)
		}
	}
	look() // what has changed since it was read
	changed := func() {
		if due == nil {
			latest = time.Now().Add(mostWait)
		}
		due = time.After(min(quiet, time.Until(latest)))
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-events:
			changed()
		case err := <-lost:
			s.config.Log.Debug("rls: told of some changes too late", "path", s.config.Path, "error", err)
			changed()
		case <-due:
			look()
		case <-poll.C:
			look()
		}
	}
}

// follow watches the folders whose changes can change the configuration: the configuration's own, and those of what it links to.
func (s *Server) follow(watcher *fsnotify.Watcher) {
	if watcher == nil {
		return
	}
	wanted := map[string]bool{filepath.Dir(s.config.Path): true}
	path := s.config.Path
	for range 40 { // more links than that no system follows
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			wanted[path] = true
		}
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
		wanted[filepath.Dir(path)] = true
	}
	for _, folder := range watcher.WatchList() {
		if !wanted[folder] {
			_ = watcher.Remove(folder) // it may be gone
		}
	}
	for folder := range wanted {
		_ = watcher.Add(folder) // where that fails, the folder is looked at every ten seconds
	}
}

var seed = maphash.MakeSeed()

// sumOf is a sum of what was read.
func sumOf(files []source, err error) uint64 {
	var sum maphash.Hash
	sum.SetSeed(seed)
	if err != nil {
		sum.WriteString("error " + err.Error())
	}
	for _, file := range files {
		maphash.WriteComparable(&sum, file.name)
		maphash.WriteComparable(&sum, string(file.text))
	}
	return sum.Sum64()
}

// reload reads the configuration, and puts it in force if it has changed, stays as it is and is right. It stays as
// it is if the read before was the same: else again is true, and another read has to follow. The first read is
// taken as it is.
func (s *Server) reload() (again bool, err error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	files, err := read(s.config.Path)
	sum := sumOf(files, err)
	same := !s.read || sum == s.last
	s.last = sum
	switch {
	case s.read && sum == s.sum:
		return false, nil
	case !same:
		return true, nil
	}
	s.read, s.sum = true, sum
	var rules *Rules
	if err == nil {
		rules, err = compile(files, s.config.Merge)
	}
	if err != nil {
		s.metrics.notLoaded.Add(1)
		return false, err
	}
	s.metrics.adopt(rules)
	s.rules.Store(rules)
	s.metrics.loaded.Add(1)
	s.config.Log.Info("rls: configuration in force", "path", s.config.Path, "domains", len(rules.order))
	return false, nil
}
