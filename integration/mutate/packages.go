package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// quick is the packages, and the folder of their module, whose tests are to see an edit.
func (e edit) quick() (module string, packages []string) {
	within := func(folder string) bool { return strings.HasPrefix(e.file, folder+"/") }
	switch {
	case within("internal/door"), within("httplimit"):
		return ".", []string{"./internal/door", "./httplimit"}
	case within("limit"):
		return ".", []string{"./limit"}
	case within("cmd/rrl"):
		return "cmd/rrl", []string{"./internal/..."}
	case within("grpclimit"):
		return "grpclimit", []string{"."}
	case within("internal/blocks"):
		return "internal/blocks", []string{"."}
	case within("rules"):
		return "rules", []string{"."}
	case within("rls"):
		return "rls", []string{"."}
	}
	return ".", []string{".", "./internal/..."}
}

// packagesOf is those of some packages that have a test of that name, which spares building the others; all where none has.
func (t trial) packagesOf(test, module string, packages []string) []string {
	root := filepath.Join(t.root, module)
	var files []string
	for _, p := range packages {
		of, err := filepath.Glob(filepath.Join(root, strings.Replace(p, "...", "*", 1), "*_test.go"))
		if err != nil {
			return packages
		}
		files = append(files, of...)
	}
	var found []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		folder, relErr := filepath.Rel(root, filepath.Dir(file))
		if err != nil || relErr != nil || !strings.Contains(string(text), "\nfunc "+test+"(") {
			continue
		}
		if folder = "./" + folder; !slices.Contains(found, folder) {
			found = append(found, folder)
		}
	}
	if found == nil {
		return packages
	}
	return found
}
