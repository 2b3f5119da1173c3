package rls

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"github.com/rratelimiter/rratelimiter/rules/internal/yamlfile"
)

// Load loads a configuration: one file, or all files of a directory whose names end in .yaml or
// .yml and do not begin with a dot. Each file has a domain of its own; with merge, several files
// may have the same domain.
//
// An error has a line for each mistake: file:line: field: and the reason.
func Load(path string, merge bool) (*Rules, error) {
	sources, problem := rulefile.Read(path, belongs)
	return compile(path, sources, problem, merge)
}

// belongs reports whether a file of a directory is part of the configuration.
func belongs(entry fs.DirEntry) bool {
	ext := filepath.Ext(entry.Name())
	return !strings.HasPrefix(entry.Name(), ".") && (ext == ".yaml" || ext == ".yml")
}

func compile(path string, sources []rulefile.Source, problem *rulefile.Problem, merge bool) (*Rules, error) {
	if problem != nil {
		return nil, problem
	}
	if len(sources) == 0 {
		return nil, &rulefile.Problem{File: path, Reason: "has no file whose name ends in .yaml or .yml"}
	}
	rules := &Rules{domains: make(map[string]*domain)}
	var problems []*rulefile.Problem
	for _, file := range sources {
		d, wrong := parse(file.Name, file.Data)
		problems = append(problems, wrong...)
		before := rules.domains[d.name]
		switch {
		case len(wrong) > 0:
		case before == nil:
			rules.domains[d.name] = d
			rules.order = append(rules.order, d)
		case !merge:
			reason := fmt.Sprintf("is %q, which %s has already", rulefile.Clip(d.name), before.file)
			problems = append(problems, &rulefile.Problem{File: file.Name, Field: "domain", Reason: reason})
		default:
			problems = append(problems, before.merge(d)...)
		}
	}
	if len(problems) > 0 {
		return nil, rulefile.Join(problems...)
	}
	for _, d := range rules.order {
		d.rules.complete(nil)
	}
	return rules, nil
}

func (d *domain) merge(other *domain) (problems []*rulefile.Problem) {
	fail := func(line int, field, reason string) {
		problems = append(problems, &rulefile.Problem{File: other.file, Line: line, Field: field, Reason: reason})
	}
	for _, r := range other.rules.order {
		if err := d.rules.add(r); err != nil {
			fail(r.line, "descriptors", err.Error())
		}
	}
	if other.slotBy != "" && d.slotBy != "" && other.slotBy != d.slotBy {
		fail(0, "slot_by", fmt.Sprintf("is %q, but %q in %s", other.slotBy, d.slotBy, d.file))
	}
	d.slotBy = cmp.Or(d.slotBy, other.slotBy)
	return problems
}

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
				r.series = s.metrics.seriesWith(levelLabels(d.name, r.levels), false)
			}
		})
	}
	s.rules.Store(rules)
	s.metrics.loaded.Inc()
	s.config.Log.Info("rls: configuration in force", "path", s.config.Path, "domains", len(rules.order))
	return nil
}

func (s *Server) report(err error, signaled bool) {
	if signaled {
		s.config.Log.Info("rls: reload by a signal")
	}
	if err != nil {
		const message = "rls: the configuration is wrong, the one before stays in force"
		s.config.Log.Error(message, "path", s.config.Path, "error", err)
	}
}
