package rls

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// Load reads a configuration: one file, or a directory of which every file counts whose name ends in .yaml or .yml and begins with no
// dot. Each file has a domain of its own; with merge several files may add to one domain.
//
// What is wrong with files is told as a *[ConfigError] for each mistake, joined: [errors.As] finds the first.
func Load(path string, merge bool) (*Rules, error) {
	files, err := read(path)
	if err != nil {
		return nil, err
	}
	return compile(files, merge)
}

// source is a file as it was read.
type source struct {
	name string
	text []byte
}

// read reads the files of a configuration, as they are at one moment as far as that can be told: what changes meanwhile is read again.
func read(path string) ([]source, error) {
	for range 3 {
		before := seenAt(path)
		files, err := readAll(path)
		if slices.EqualFunc(before, seenAt(path), same) {
			return files, err
		}
	}
	return nil, &ConfigError{File: path, Reason: "changes while it is read; write other files and rename them, or the folder"}
}

// seen is a file as it stands in its folder.
type seen struct {
	name string
	info fs.FileInfo // nil where there is none
}

func same(a, b seen) bool {
	if a.info == nil || b.info == nil {
		return a == b
	}
	return a.name == b.name && os.SameFile(a.info, b.info) && a.info.Size() == b.info.Size() && a.info.ModTime().Equal(b.info.ModTime())
}

// seenAt is what readAll reads, as it stands there.
func seenAt(path string) []seen {
	names := []string{path}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		names = names[:0]
		entries, _ := os.ReadDir(path) // where that fails there is nothing to read
		for _, entry := range entries {
			if counts(entry) {
				names = append(names, filepath.Join(path, entry.Name()))
			}
		}
	}
	all := make([]seen, len(names))
	for i, name := range names {
		info, _ := os.Stat(name)
		all[i] = seen{name, info}
	}
	return all
}

// counts says whether a file of a folder belongs to the configuration.
func counts(entry fs.DirEntry) bool {
	ext := filepath.Ext(entry.Name())
	return !strings.HasPrefix(entry.Name(), ".") && (ext == ".yaml" || ext == ".yml")
}

func readAll(path string) ([]source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if !info.IsDir() {
		file, err := readFile(path)
		if err != nil {
			return nil, err
		}
		return []source{file}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	var files []source
	for _, entry := range entries {
		if !counts(entry) {
			continue
		}
		file, err := readFile(filepath.Join(path, entry.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return nil, &ConfigError{File: path, Reason: "has no file whose name ends in .yaml or .yml"}
	}
	return files, nil
}

// readFile reads one file, and no more of it than may be there.
func readFile(path string) (source, error) {
	if info, err := os.Stat(path); err == nil {
		switch {
		case !info.Mode().IsRegular(): // to open a pipe could last for ever
			return source{}, &ConfigError{File: path, Reason: fmt.Sprintf("is no file (%s)", info.Mode().Type())}
		case info.Size() > rulefile.MostBytes:
			return source{}, &ConfigError{File: path, Reason: fmt.Sprintf("has %d bytes, want at most %d (%d MiB)", info.Size(), rulefile.MostBytes, rulefile.MostBytes>>20)}
		}
	}
	file, err := os.Open(path)
	if err != nil {
		return source{}, unreadable(path, err)
	}
	defer func() { _ = file.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(file, rulefile.MostBytes+1))
	if err != nil {
		return source{}, unreadable(path, err)
	}
	return source{path, text}, nil
}

func unreadable(path string, err error) error {
	var inside *os.PathError
	if errors.As(err, &inside) {
		err = inside.Err
	}
	return &ConfigError{File: path, Reason: "cannot be read: " + err.Error()}
}

// compile makes rules of files.
func compile(files []source, merge bool) (*Rules, error) {
	rules := &Rules{domains: make(map[string]*domain)}
	var errs []error
	for _, file := range files {
		d, wrong := parse(file.name, file.text)
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
			errs = append(errs, &ConfigError{File: file.name, Field: "domain", Reason: fmt.Sprintf("is %q, which %s has already", rulefile.Clip(d.name), before.file)})
		default:
			errs = append(errs, before.merge(d)...)
		}
	}
	for _, d := range rules.order {
		d.finish()
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return rules, nil
}

// merge adds what another file says of a domain.
func (d *domain) merge(other *domain) (errs []error) {
	fail := func(line int, field, reason string) {
		errs = append(errs, &ConfigError{File: other.file, Line: line, Field: field, Reason: reason})
	}
	added := make([]*rule, 0, len(other.rules.exact))
	for _, r := range other.rules.exact {
		added = append(added, r)
	}
	slices.SortFunc(added, func(a, b *rule) int { return cmp.Compare(a.place, b.place) })
	for _, r := range added {
		if err := d.rules.add(r); err != nil {
			fail(r.line, "descriptors", err.Error())
		}
	}
	if other.slotBy != "" && d.slotBy != "" && other.slotBy != d.slotBy {
		fail(0, "slot_by", fmt.Sprintf("is %q, but %q in %s", other.slotBy, d.slotBy, d.file))
	}
	d.slotBy = cmp.Or(d.slotBy, other.slotBy)
	if other.web != nil && d.web != nil {
		fail(0, "http", "stands in "+d.file+" already")
	}
	d.web = cmp.Or(d.web, other.web)
	return errs
}

// finish sets what is known once all files are read.
func (d *domain) finish() { d.rules.finish(nil, false) }

func (l *level) finish(above []string, valueAbove bool) {
	for _, r := range l.exact {
		r.levels = slices.Concat(above, []string{r.id()})
		r.dynamic = valueAbove || r.detailed || r.valueInName
		r.below.finish(r.levels, valueAbove || r.valueInName)
	}
}
