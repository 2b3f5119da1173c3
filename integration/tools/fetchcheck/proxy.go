package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
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

// serve packs the published modules of root below dir and returns the environment that finds them.
func serve(ctx context.Context, root, dir string, modules []*goModule, version string) (environment, error) {
	proxy := filepath.Join(dir, "proxy")
	exported := filepath.Join(dir, "exported")
	if err := export(ctx, root, exported); err != nil {
		return environment{}, err
	}
	for _, m := range modules {
		if !m.published() {
			continue
		}
		in, err := filepath.Rel(root, m.Dir)
		if err != nil {
			return environment{}, err
		}
		if err := pack(proxy, filepath.Join(exported, in), m, version); err != nil {
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

// pack writes a module, whose files are in dir, to a folder in the layout of a module proxy.
func pack(proxy, dir string, m *goModule, version string) error {
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	at := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	var packed bytes.Buffer
	if err := zip.CreateFromDir(&packed, module.Version{Path: m.Path, Version: version}, dir); err != nil {
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

// export writes the files that a commit of everything in root would have to a folder: no ignored ones.
func export(ctx context.Context, root, folder string) error {
	for _, args := range [][]string{{"add", "--all"}, {"checkout-index", "--all", "--prefix=" + folder + "/"}} {
		git := exec.CommandContext(ctx, "git", args...)
		git.Dir, git.Stderr = root, os.Stderr
		git.Env = append(os.Environ(), "GIT_INDEX_FILE="+folder+".index")
		if err := git.Run(); err != nil {
			return fmt.Errorf("fetchcheck: git %s: %w", args[0], err)
		}
	}
	return nil
}
