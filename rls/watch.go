package rls

import (
	"context"
	"os"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// lookAll is the time from one poll to the next: a file system may not notify of changes.
const lookAll = 10 * time.Second

// Watch reads the configuration again whenever its files change, until ctx ends, and returns its error then. It
// sees files that are written, renamed and removed, and the swap of a symbolic link by which Kubernetes updates a
// ConfigMap; and it polls every ten seconds. Files are taken once two reads, a tenth of a second apart, are equal.
// A writer that pauses for longer in the middle of a file is not noticed: write another file and rename it. What
// is wrong with files is logged and counted, and the rules before stay in force.
func (s *Server) Watch(ctx context.Context) error {
	n, err := fsnotify.NewWatcher()
	if err != nil {
		s.config.Log.Warn("rls: changes are seen late", "path", s.config.Path, "error", err)
		rulefile.Run[fsnotify.Event](ctx, &s.files, nil, nil, nil)
		return ctx.Err()
	}
	defer func() { _ = n.Close() }() // nothing is left to do about it
	rulefile.Run(ctx, &s.files, n, n.Events, n.Errors)
	return ctx.Err()
}

// Reload reads the configuration, whether or not its files have changed, and puts it in force. If it is wrong, the
// configuration before stays in force.
//
// Errors: *[ConfigError].
func (s *Server) Reload() error { return s.files.Reload() }

// take puts a configuration in force, or returns what is wrong with it.
func (s *Server) take(sources []rulefile.Source, problem *rulefile.Problem) error {
	rules, err := compile(s.config.Path, sources, problem, s.config.Merge)
	if err != nil {
		s.metrics.notLoaded.Add(1)
		return err
	}
	for _, d := range rules.order {
		d.rules.open(s.config.Client)
	}
	s.metrics.adopt(rules)
	s.rules.Store(rules)
	s.metrics.loaded.Add(1)
	s.config.Log.Info("rls: configuration in force", "path", s.config.Path, "domains", len(rules.order))
	return nil
}

// report logs what is wrong with a configuration.
func (s *Server) report(err error) {
	if err != nil {
		const message = "rls: the configuration is wrong, the one before stays in force"
		s.config.Log.Error(message, "path", s.config.Path, "error", err)
	}
}

// reloadAt reloads for each signal, until ctx ends.
func (s *Server) reloadAt(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case signal, ok := <-signals:
			if !ok {
				return
			}
			s.config.Log.Info("rls: reload", "signal", signal.String())
			s.report(s.Reload())
		}
	}
}
