package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// listed is what go list prints of a package.
type listed struct {
	ImportPath string
	Name       string
	Export     string // the file with its compiled declarations
	DepOnly    bool
	Module     *struct {
		Path string
		Main bool
	}
}

// public reports whether programs outside this repository can import the package.
func (l listed) public() bool {
	if l.DepOnly || l.Name == "main" || l.Module == nil || !l.Module.Main {
		return false
	}
	private := slices.Contains([]string{"integration", "examples"}, path.Base(l.Module.Path))
	return !private && !slices.Contains(strings.Split(l.ImportPath, "/"), "internal")
}

// describe returns the file name and the declarations of each public package in the workspace of
// root.
func describe(ctx context.Context, root string) (map[string]string, error) {
	modules := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}/...")
	modules.Dir, modules.Stderr = root, os.Stderr
	folders, err := modules.Output()
	if err != nil {
		return nil, fmt.Errorf("api: go list -m: %w", err)
	}
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-export",
		"-json=ImportPath,Name,Export,DepOnly,Module"}, strings.Fields(string(folders))...)...)
	list.Dir, list.Stderr = root, os.Stderr
	output, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("api: go list -export: %w", err)
	}
	exports := map[string]string{}
	var packages []string
	for decoder := json.NewDecoder(strings.NewReader(string(output))); ; {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[l.ImportPath] = l.Export
		if l.public() {
			packages = append(packages, l.ImportPath)
		}
	}
	compiled := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	files := map[string]string{}
	for _, name := range packages {
		pkg, err := compiled.Import(name)
		if err != nil {
			return nil, err
		}
		files[path.Base(name)+".txt"] = strings.Join(declarations(pkg), "\n") + "\n"
	}
	return files, nil
}
