// Package fetchcheck tests fetchcheck.sh, the script of make fetch-check.
package fetchcheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// repository is a workspace with a library, a module on it, a command, and a module that is not
// published. The library's tests use another module.
var repository = map[string]string{
	"go.work": "go 1.25.0\nuse (\n.\n./cmd/tool\n./integration\n./extra\n)\n" +
		"replace github.com/rrl-test/lib v0.1.0 => ./\nreplace github.com/rrl-test/lib/extra v0.1.0 => ./extra\n",
	"go.mod":             "module github.com/rrl-test/lib\ngo 1.25.0\nrequire github.com/google/uuid v1.6.0\n",
	"go.sum":             uuidSums,
	"lib.go":             "package lib\n\nfunc Limit() int { return 1 }\n",
	"lib_test.go":        "package lib\n\nimport _ \"github.com/google/uuid\"\n",
	"libtest/libtest.go": "package libtest\n\nimport _ \"github.com/google/uuid\"\n\nfunc New() {}\n",
	"extra/go.mod": "module github.com/rrl-test/lib/extra\ngo 1.25.0\n" +
		"require github.com/rrl-test/lib v0.1.0\n",
	"extra/extra.go": "package extra\n\nimport \"github.com/rrl-test/lib\"\n\nvar Limit = lib.Limit()\n",
	"cmd/tool/go.mod": "module github.com/rrl-test/lib/cmd/tool\ngo 1.25.0\n" +
		"require github.com/rrl-test/lib v0.1.0\n",
	"cmd/tool/main.go":    toolProgram,
	"integration/go.mod":  "module github.com/rrl-test/lib/integration\ngo 1.25.0\n",
	"integration/none.go": "package integration\n",
	program + "main.go": "package main\n\nimport (\n\t\"github.com/rrl-test/lib\"\n" +
		"\t\"github.com/rrl-test/lib/extra\"\n)\n\nfunc main() { println(lib.Limit(), extra.Limit) }\n",
	program + "main_test.go": "package main\n\nimport \"github.com/rrl-test/lib/libtest\"\n\n" +
		"func init() { libtest.New() }\n",
	"api/dependencies.txt": "github.com/rrl-test/lib\ngithub.com/rrl-test/lib/extra\n" +
		"besides, for tests of a consumer\n\tgithub.com/google/uuid\n",
}

const (
	program  = "integration/tools/fetchcheck/testdata/consumer/"
	uuidSums = "github.com/google/uuid v1.6.0 h1:NIvaJDMOsjHA8n1jAhLSgzrAzy1Hgr+hNrb57e+94F0=\n" +
		"github.com/google/uuid v1.6.0/go.mod h1:TIyPZe4MgqvfeYDBFedMoGGpEw/LqOeaOT+nhxU+yHo=\n"
)

const toolProgram = `package main

import (
	"fmt"
	"runtime/debug"

	"github.com/rrl-test/lib"
)

func main() {
	info, _ := debug.ReadBuildInfo()
	fmt.Println(info.Main.Version, lib.Limit())
}
`

func TestCheck(t *testing.T) {
	script, err := filepath.Abs("fetchcheck.sh")
	require.NoError(t, err)
	for name, test := range map[string]struct {
		files map[string]string // replaced in the repository
		fails string
	}{
		"sound": {},
		"replace": {
			map[string]string{"extra/go.mod": repository["extra/go.mod"] + "replace github.com/rrl-test/lib => ../\n"},
			"extra/go.mod:4:replace",
		},
		"exclude": {
			map[string]string{"go.mod": repository["go.mod"] + "exclude github.com/google/uuid v1.1.0\n"},
			"go.mod:4:exclude",
		},
		"two versions": {
			map[string]string{"extra/go.mod": "module github.com/rrl-test/lib/extra\ngo 1.25.0\nrequire github.com/rrl-test/lib v0.0.9\n"},
			"use one version",
		},
		"a module that is not published": {
			map[string]string{"extra/go.mod": repository["extra/go.mod"] + "require github.com/rrl-test/lib/integration v0.1.0\n"},
			"requires one that is not published",
		},
		"a package that only go.work finds": {
			map[string]string{"extra/extra.go": "package extra\n\nimport _ \"github.com/rrl-test/lib/integration\"\n\n" +
				"var Limit = 1\n"},
			"github.com/rrl-test/lib/integration",
		},
		"an ignored file": {
			map[string]string{".gitignore": "secret.go\n", "secret.go": "package lib\n\nconst one = 1\n",
				"lib.go": "package lib\n\nfunc Limit() int { return one }\n"},
			"undefined: one",
		},
		"a dependency of tests in the library": {
			map[string]string{"lib.go": "package lib\n\nimport _ \"github.com/google/uuid\"\n\nfunc Limit() int { return 1 }\n"},
			"consumers get other modules than api/dependencies.txt lists",
		},
		"a package without a use": {
			map[string]string{"more/more.go": "package more\n"},
			"does not use github.com/rrl-test/lib/more",
		},
		"a command that does not start": {
			map[string]string{"cmd/tool/main.go": "package main\n\nfunc main() { panic(\"no\") }\n"},
			"panic: no",
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, repository)
			write(t, root, test.files)
			command := exec.CommandContext(t.Context(), script)
			command.Dir = root
			output, err := command.CombinedOutput()
			if test.fails == "" {
				require.NoError(t, err, string(output))
				return
			}
			require.Error(t, err)
			require.Contains(t, string(output), test.fails)
		})
	}
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	git := exec.CommandContext(t.Context(), "git", "init", "-q")
	git.Dir = dir
	require.NoError(t, git.Run())
}
