package rls

import (
	"cmp"
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
