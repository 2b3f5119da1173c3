// Command api writes the exported API of each public package to the folder api. A file has one
// declaration per line, so that a reviewer sees a change of the API as a difference.
// Run it in the root of the repository:
//
//	go run ./integration/tools/api
package main

import (
	"fmt"
	"log"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("api: ")
	public, err := load(".")
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range describe(public) {
		if err := os.WriteFile(filepath.Join("api", name), []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// load returns the packages of the workspace of root that programs outside this repository can import.
func load(root string) (public []*packages.Package, err error) {
	all, err := packages.Load(&packages.Config{Dir: root,
		Mode: packages.NeedName | packages.NeedModule | packages.NeedTypes}, "work")
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("%s: %w", p.PkgPath, p.Errors[0])
		}
		private := p.Module == nil || slices.Contains([]string{"integration", "examples"}, path.Base(p.Module.Path))
		if !private && p.Name != "main" && !slices.Contains(strings.Split(p.PkgPath, "/"), "internal") {
			public = append(public, p)
		}
	}
	return public, nil
}

// describe returns the file name and the declarations of each public package.
func describe(public []*packages.Package) map[string]string {
	files := map[string]string{}
	for _, p := range public {
		files[path.Base(p.PkgPath)+".txt"] = strings.Join(declarations(p.Types), "\n") + "\n"
	}
	return files
}
