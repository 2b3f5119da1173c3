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
	quiet    = 100 * time.Millisecond // what changes at once is read once
	mostWait = time.Second            // while it goes on changing
	lookAll  = 10 * time.Second       // where nothing has told of a change: a file system may not
)

// Watch reads the configuration anew whenever its files change, until ctx ends, and returns its error then. It sees files that are
// written, renamed and removed, and the swap of a symbolic link by which Kubernetes updates a ConfigMap; and it looks every ten seconds
// whatever it was told. What is wrong with files is logged and counted, and the rules before stay in force.
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
	look := func() {
		s.follow(watcher)
		if err := s.reload(); err != nil {
			s.config.Log.Error("rls: the configuration is wrong, the one before stays in force", "path", s.config.Path, "error", err)
		}
	}
	look() // what has changed since it was read
	poll := time.NewTicker(lookAll)
	defer poll.Stop()
	var due <-chan time.Time // when to read
	var latest time.Time     // when to read at the latest
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
			due = nil
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

// reload reads the configuration, and puts it in force where it has changed and is right.
func (s *Server) reload() error {
	s.reading.Lock()
	defer s.reading.Unlock()
	files, err := read(s.config.Path)
	var sum maphash.Hash
	sum.SetSeed(seed)
	if err != nil {
		sum.WriteString("error " + err.Error())
	}
	for _, file := range files {
		maphash.WriteComparable(&sum, file.name)
		maphash.WriteComparable(&sum, string(file.text))
	}
	if now := sum.Sum64(); s.read && s.sum == now {
		return nil
	} else {
		s.read, s.sum = true, now
	}
	var rules *Rules
	if err == nil {
		rules, err = compile(files, s.config.Merge)
	}
	if err != nil {
		s.metrics.notLoaded.Add(1)
		return err
	}
	s.metrics.adopt(rules)
	s.rules.Store(rules)
	s.metrics.loaded.Add(1)
	s.config.Log.Info("rls: configuration in force", "path", s.config.Path, "domains", len(rules.order))
	return nil
}
