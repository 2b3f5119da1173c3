package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// private lists the last element of modules that have no version and no tag.
var private = []string{"integration", "examples"}

// goModule is a module of this repository.
type goModule struct {
	Path  string
	Dir   string
	GoMod string
	file  *modfile.File
}

func (m *goModule) published() bool { return !slices.Contains(private, path.Base(m.Path)) }

// listModules returns the modules of the workspace in root.
func listModules(ctx context.Context, root string) ([]*goModule, error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-json")
	list.Dir, list.Stderr = root, os.Stderr
	output, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("fetchcheck: go list -m: %w", err)
	}
	var modules []*goModule
	for decoder := json.NewDecoder(strings.NewReader(string(output))); ; {
		var m goModule
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			return modules, nil
		} else if err != nil {
			return nil, err
		}
		text, err := os.ReadFile(m.GoMod)
		if err != nil {
			return nil, err
		}
		if m.file, err = modfile.Parse(m.GoMod, text, nil); err != nil {
			return nil, err
		}
		modules = append(modules, &m)
	}
}

// commonVersion returns the version at which the modules require each other, and an error for each
// line of a published go.mod that a consumer ignores or rejects.
func commonVersion(modules []*goModule) (string, error) {
	own := map[string]*goModule{}
	for _, m := range modules {
		own[m.Path] = m
	}
	var version string
	var problems []error
	problem := func(m *goModule, format string, args ...any) {
		problems = append(problems, fmt.Errorf("fetchcheck: %s: "+format, append([]any{m.GoMod}, args...)...))
	}
	for _, m := range modules {
		if m.published() {
			for _, r := range m.file.Replace {
				problem(m, "replace of %s: consumers ignore it: put it into go.work", r.Old.Path)
			}
			for _, e := range m.file.Exclude {
				problem(m, "exclude of %s: go install rejects it: remove it", e.Mod.Path)
			}
		}
		for _, r := range m.file.Require {
			sibling := own[r.Mod.Path]
			switch {
			case sibling == nil:
			case !sibling.published():
				problem(m, "requires %s: it is not published", r.Mod.Path)
			case version == "":
				version = r.Mod.Version
			case version != r.Mod.Version:
				problem(m, "requires %s at %s: other modules require %s: use one version", r.Mod.Path, r.Mod.Version, version)
			}
		}
	}
	if version == "" {
		problems = append(problems, errors.New("fetchcheck: no module requires another one: the version is unknown"))
	}
	return version, errors.Join(problems...)
}
