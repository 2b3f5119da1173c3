package rls

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// Load loads a configuration: one file, or all files of a directory whose names end in .yaml or
// .yml and do not begin with a dot. Each file has a domain of its own; with merge, several files
// may have the same domain.
//
// Each mistake in the files is a *[ConfigError]. All are joined, and [errors.As] finds the first.
func Load(path string, merge bool) (*Rules, error) {
	sources, problem := rulefile.Read(path, belongs)
	return compile(path, sources, problem, merge)
}

// belongs reports whether a file of a directory is part of the configuration.
func belongs(entry fs.DirEntry) bool {
	ext := filepath.Ext(entry.Name())
	return !strings.HasPrefix(entry.Name(), ".") && (ext == ".yaml" || ext == ".yml")
}

// compile compiles files into rules.
func compile(path string, sources []rulefile.Source, problem *rulefile.Problem, merge bool) (*Rules, error) {
	if problem != nil {
		return nil, configError(problem)
	}
	if len(sources) == 0 {
		return nil, &ConfigError{File: path, Reason: "has no file whose name ends in .yaml or .yml"}
	}
	rules := &Rules{domains: make(map[string]*domain)}
	var errs []error
	for _, file := range sources {
		d, wrong := parse(file.Name, file.Data)
		errs = append(errs, wrong...)
		if d == nil || len(wrong) > 0 {
			continue
		}
		before := rules.domains[d.name]
		switch {
		case before == nil:
			rules.domains[d.name] = d
			rules.order = append(rules.order, d)
		case !merge:
			errs = append(errs,
				&ConfigError{File: file.Name, Field: "domain",
					Reason: fmt.Sprintf("is %q, which %s has already", rulefile.Clip(d.name), before.file)})
		default:
			errs = append(errs, before.merge(d)...)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return rules, nil
}

// merge adds the rules of another file to a domain.
func (d *domain) merge(other *domain) (errs []error) {
	fail := func(line int, field, reason string) {
		errs = append(errs, &ConfigError{File: other.file, Line: line, Field: field, Reason: reason})
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
	if other.web != nil && d.web != nil {
		fail(0, "http", "is defined in "+d.file+" already")
	}
	d.web = cmp.Or(d.web, other.web)
	return errs
}
