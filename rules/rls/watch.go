package rls

import (
	"context"
	"os"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"github.com/rratelimiter/rratelimiter/rules/internal/yamlfile"
)

// pollInterval is the time between polls, since a file system may not notify of changes.
const pollInterval = 10 * time.Second

// Watch reloads the configuration whenever its files change. It returns the error of ctx when that
// ends. It detects files that are written, renamed and removed, and the replacement of a symbolic
// link by which Kubernetes updates a ConfigMap. It also polls every ten seconds. Files are taken
// once two reads, a tenth of a second apart, are equal. A writer that pauses for longer in the
// middle of a file is not detected: write another file and rename it. Mistakes are logged and
// counted, and the old rules stay in force.
func (s *Server) Watch(ctx context.Context) error {
	if s.config.Path == "" {
		<-ctx.Done()
		return ctx.Err()
	}
	yamlfile.Follow(ctx, &s.files)
	return ctx.Err()
}

// Reload reloads the configuration, even if its files have not changed. If it has a mistake, the
// old one stays in force.
func (s *Server) Reload() error {
	if s.config.Path == "" {
		return nil
	}
	return s.files.Reload()
}

// apply puts a configuration in force, or returns its mistakes.
func (s *Server) apply(sources []rulefile.Source, problem *rulefile.Problem) error {
	rules, err := compile(s.config.Path, sources, problem, s.config.Merge)
	if err != nil {
		s.metrics.notLoaded.Inc()
		return err
	}
	for _, d := range rules.order {
		d.rules.each(func(r *rule) {
			r.open(s.config.Client)
			if len(r.limits) > 0 { // a rule that existed before keeps its counters
				r.series = s.metrics.of(levelLabels(d.name, r.levels), false)
			}
		})
	}
	s.rules.Store(rules)
	s.metrics.loaded.Inc()
	s.config.Log.Info("rls: configuration in force", "path", s.config.Path, "domains", len(rules.order))
	return nil
}

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
