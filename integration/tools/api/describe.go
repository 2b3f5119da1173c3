package main

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// public reports whether programs outside this repository can import the package.
func public(p *packages.Package) bool {
	private := p.Module == nil || slices.Contains([]string{"integration", "examples"}, path.Base(p.Module.Path))
	return !private && p.Name != "main" && !slices.Contains(strings.Split(p.PkgPath, "/"), "internal")
}

// describe returns the file name and the declarations of each public package in the workspace of
// root.
func describe(ctx context.Context, root string) (map[string]string, error) {
	all, err := packages.Load(&packages.Config{Context: ctx, Dir: root,
		Mode: packages.NeedName | packages.NeedModule | packages.NeedTypes}, "work")
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	files := map[string]string{}
	for _, p := range all {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("api: %s: %w", p.PkgPath, p.Errors[0])
		}
		if public(p) {
			files[path.Base(p.PkgPath)+".txt"] = strings.Join(declarations(p.Types), "\n") + "\n"
		}
	}
	return files, nil
}
