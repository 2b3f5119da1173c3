package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

const (
	consumerProgram = "integration/tools/fetchcheck/testdata/consumer" // a program that uses every public package
	dependencies    = "api/dependencies.txt"                           // what a consumer of each module gets
)

// check is one run over the modules below root.
type check struct {
	root    string // the repository
	dir     string // a temporary folder
	program string // the folder of a program that uses every public package
	update  bool

	version  string
	env      environment
	own      map[string]bool // the published modules
	packages []string        // the public packages that a program can import, in libraries
}

// run fetches each library module alone, then builds the program that uses all of them, then
// installs the commands.
func (c *check) run(ctx context.Context) error {
	modules, err := listModules(ctx, c.root)
	if err != nil {
		return err
	}
	if c.version, err = commonVersion(modules); err != nil {
		return err
	}
	if c.env, err = serve(ctx, c.root, c.dir, modules, c.version); err != nil {
		return err
	}
	c.own = map[string]bool{}
	var found []byte
	var libraries, commands, alone []string
	for _, m := range modules {
		if !m.published() {
			continue
		}
		c.own[m.Path] = true
		public, command, err := publicPackages(ctx, m)
		if err != nil {
			return err
		}
		if command {
			commands = append(commands, m.Path)
			continue
		}
		libraries = append(libraries, m.Path)
		c.packages = append(c.packages, public...)
		gets, err := c.fetchAlone(ctx, m.Path, public)
		if err != nil {
			return err
		}
		log.Printf("fetchcheck: a program with %s: ok", m.Path)
		alone = append(alone, gets...)
		found = entry(found, m.Path, gets)
	}
	gets, err := c.fetchAll(ctx, libraries, alone)
	if err != nil {
		return err
	}
	log.Print("fetchcheck: a program with all modules: ok")
	gets = slices.DeleteFunc(gets, func(m string) bool { return slices.Contains(alone, m) })
	found = entry(found, "besides, for tests of a consumer", gets)
	if err := c.compare(string(found)); err != nil {
		return err
	}
	for _, command := range commands {
		if _, err := c.env.run(ctx, c.dir, "go", "install", command+"@"+c.version); err != nil {
			return err
		}
		name := path.Base(command)
		if runtime.GOOS == "windows" {
			name += ".exe"
		}
		if err := c.startCommand(ctx, filepath.Join(c.env.bin, name)); err != nil {
			return err
		}
	}
	return nil
}

// publicPackages returns the packages of a module that others can import, and whether the module is
// a command.
func publicPackages(ctx context.Context, m *goModule) (public []string, command bool, err error) {
	list := exec.CommandContext(ctx, "go", "list", "-f", "{{.Name}} {{.ImportPath}}", "./...")
	list.Dir, list.Stderr = m.Dir, os.Stderr
	output, err := list.Output()
	if err != nil {
		return nil, false, fmt.Errorf("fetchcheck: %s: go list: %w", m.Path, err)
	}
	for line := range strings.Lines(string(output)) {
		name, pkg, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case name == "main":
			command = command || pkg == m.Path
		case !slices.Contains(strings.Split(pkg, "/"), "internal"):
			public = append(public, pkg)
		}
	}
	return public, command, nil
}

// fetchAlone gets one module for a program that imports each of its packages, and returns the other
// modules that the program's go.mod then has.
func (c *check) fetchAlone(ctx context.Context, m string, packages []string) ([]string, error) {
	program := []byte("package main\n\nimport (\n")
	for _, pkg := range packages {
		if !forTests(pkg) {
			program = fmt.Appendf(program, "\t_ %q\n", pkg)
		}
	}
	program = append(program, ")\n\nfunc main() {}\n"...)
	dir := filepath.Join(c.dir, "consumer-"+path.Base(m))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), program, 0o644); err != nil {
		return nil, err
	}
	return c.fetch(ctx, dir, m)
}

// fetchAll gets all modules for the program that uses every package, and returns the other modules
// that its go.mod then has. The binary must not have what only its tests use.
func (c *check) fetchAll(ctx context.Context, modules, alone []string) ([]string, error) {
	dir := filepath.Join(c.dir, "consumer")
	if err := os.CopyFS(dir, os.DirFS(c.program)); err != nil {
		return nil, err
	}
	gets, err := c.fetch(ctx, dir, modules...)
	if err != nil {
		return nil, err
	}
	imports, err := c.env.run(ctx, dir, "go", "list", "-f", `{{join .Imports "\n"}}{{"\n"}}{{join .TestImports "\n"}}`)
	if err != nil {
		return nil, err
	}
	used := strings.Fields(imports)
	for _, pkg := range c.packages {
		if !slices.Contains(used, pkg) {
			return nil, fmt.Errorf("fetchcheck: %s does not use %s: add a call of it", c.program, pkg)
		}
	}
	binary := filepath.Join(dir, "program")
	if _, err := c.env.run(ctx, dir, "go", "build", "-o", binary); err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	for _, dep := range info.Deps {
		if !slices.Contains(alone, dep.Path) && !slices.Contains(modules, dep.Path) {
			return nil, fmt.Errorf("fetchcheck: %s reaches the program of a consumer: only tests may use it", dep.Path)
		}
	}
	return gets, nil
}

// forTests reports whether a package is for the tests of its users, as net/http/httptest is.
func forTests(pkg string) bool { return strings.HasSuffix(pkg, "test") }

// fetch makes dir a module, gets the given modules, tidies it and vets it. It returns what its
// go.mod requires besides modules of this repository.
func (c *check) fetch(ctx context.Context, dir string, modules ...string) ([]string, error) {
	get := []string{"get"}
	for _, m := range modules {
		get = append(get, m+"@"+c.version)
	}
	for _, args := range [][]string{
		{"mod", "init", "example.com/consumer"}, get, {"mod", "tidy"}, {"vet", "./..."},
	} {
		if _, err := c.env.run(ctx, dir, "go", args...); err != nil {
			return nil, err
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return nil, err
	}
	file, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		return nil, err
	}
	var gets []string
	for _, r := range file.Require {
		if !c.own[r.Mod.Path] {
			gets = append(gets, r.Mod.Path)
		}
	}
	slices.Sort(gets)
	return gets, nil
}

// entry appends a heading and what is below it.
func entry(text []byte, heading string, modules []string) []byte {
	text = append(text, heading+"\n"...)
	for _, m := range modules {
		text = append(text, "\t"+m+"\n"...)
	}
	return text
}

// compare compares what consumers get with the golden file, or writes it.
func (c *check) compare(found string) error {
	golden := filepath.Join(c.root, dependencies)
	if c.update {
		return os.WriteFile(golden, []byte(found), 0o644)
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		return err
	}
	if found != string(want) {
		return fmt.Errorf("fetchcheck: consumers get other modules than %s lists: a dependency of tests must not be among them; "+
			"if the change is wanted: make api\n--- now\n%s", dependencies, found)
	}
	return nil
}
