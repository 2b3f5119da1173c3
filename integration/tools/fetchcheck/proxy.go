package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// environment is what the commands of a consumer run in: no workspace, a module cache of its own,
// and the packed modules in front of the usual proxies.
type environment struct {
	vars []string
	bin  string // where go install writes
}

// serve packs the published modules below dir and returns the environment that finds them.
func serve(ctx context.Context, dir string, modules []*goModule, version string) (environment, error) {
	proxy := filepath.Join(dir, "proxy")
	for _, m := range modules {
		if !m.published() {
			continue
		}
		if err := pack(ctx, proxy, m, version); err != nil {
			return environment{}, err
		}
	}
	output, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		return environment{}, fmt.Errorf("fetchcheck: go env: %w", err)
	}
	cache, usual, _ := strings.Cut(strings.TrimSpace(string(output)), "\n")
	downloads := filepath.Join(cache, "cache", "download")
	env := environment{bin: filepath.Join(dir, "bin")}
	// -trimpath makes what was built independent of the module cache's folder, so that the build cache
	// has it the next time. The versions are not public yet, so no checksum database knows them; those
	// of other modules were checked when they came into the user's cache.
	env.vars = append(os.Environ(),
		"GOWORK=off", "GOFLAGS=-modcacherw -trimpath -buildvcs=false", "GOSUMDB=off",
		"GOMODCACHE="+filepath.Join(dir, "cache"), "GOBIN="+env.bin,
		"GOPROXY=file://"+filepath.ToSlash(proxy)+",file://"+filepath.ToSlash(downloads)+","+cmp.Or(usual, "off"))
	return env, nil
}

// run returns the output of a command, which the error repeats if the command fails.
func (e environment) run(ctx context.Context, dir, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	command.Env = slices.Concat(e.vars, []string{"PWD=" + dir})
	output, err := command.CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("fetchcheck: %s %s: %w\n%s", name, strings.Join(args, " "), err, output)
	}
	return string(output), nil
}

// pack writes a module to a folder in the layout of a module proxy.
func pack(ctx context.Context, proxy string, m *goModule, version string) error {
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	at := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	files, err := tracked(ctx, m.Dir)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	if err := zip.Create(&packed, module.Version{Path: m.Path, Version: version}, files); err != nil {
		return fmt.Errorf("fetchcheck: pack %s: %w", m.Path, err)
	}
	mod, err := os.ReadFile(m.GoMod)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list":            []byte(version + "\n"),
		version + ".info": fmt.Appendf(nil, `{"Version":%q}`, version),
		version + ".mod":  mod,
		version + ".zip":  packed.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(at, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// tracked returns the files that a commit of everything in dir would have: no ignored file and no
// module below.
func tracked(ctx context.Context, dir string) ([]zip.File, error) {
	list := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir, list.Stderr = dir, os.Stderr
	output, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("fetchcheck: git ls-files: %w", err)
	}
	nested := map[string]bool{}
	var files []zip.File
	for name := range strings.SplitSeq(strings.TrimRight(string(output), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || !info.Mode().IsRegular() || below(dir, name, nested) {
			continue // a deleted file, a link, or a file of another module
		}
		files = append(files, file{dir, name})
	}
	return files, nil
}

// below reports whether a folder between dir and the file has a go.mod of its own.
func below(dir, name string, known map[string]bool) bool {
	for folder := filepath.Dir(name); folder != "."; folder = filepath.Dir(folder) {
		nested, ok := known[folder]
		if !ok {
			_, err := os.Stat(filepath.Join(dir, folder, "go.mod"))
			nested = err == nil
			known[folder] = nested
		}
		if nested {
			return true
		}
	}
	return false
}

// file is a file of a module, for package zip.
type file struct{ dir, name string }

func (f file) Path() string                 { return filepath.ToSlash(f.name) }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(f.dir, f.name)) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.dir, f.name)) }
