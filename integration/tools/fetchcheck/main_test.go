package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// repository is a workspace with a library, a module on it, a command, and a module that is not
// published. The library's tests use an assertion library, which is in the upstream proxy.
var repository = map[string]string{
	"go.work": "go 1.25.0\nuse (\n.\n./cmd/tool\n./integration\n./extra\n)\n" +
		"replace example.com/lib v0.1.0 => ./\nreplace example.com/lib/extra v0.1.0 => ./extra\n",
	"go.mod":              "module example.com/lib\ngo 1.25.0\nrequire example.com/assert v1.0.0\n",
	"lib.go":              "package lib\n\nfunc Limit() int { return 1 }\n",
	"lib_test.go":         "package lib\n\nimport _ \"example.com/assert\"\n",
	"libtest/libtest.go":  "package libtest\n\nimport _ \"example.com/assert\"\n\nfunc New() {}\n",
	"extra/go.mod":        "module example.com/lib/extra\ngo 1.25.0\nrequire example.com/lib v0.1.0\n",
	"extra/extra.go":      "package extra\n\nimport \"example.com/lib\"\n\nvar Limit = lib.Limit()\n",
	"cmd/tool/go.mod":     "module example.com/lib/cmd/tool\ngo 1.25.0\nrequire example.com/lib v0.1.0\n",
	"cmd/tool/main.go":    toolProgram,
	"integration/go.mod":  "module example.com/lib/integration\ngo 1.25.0\n",
	"integration/none.go": "package integration\n",
	"program/main.go": "package main\n\nimport (\n\t\"example.com/lib\"\n\t\"example.com/lib/extra\"\n)\n\n" +
		"func main() { println(lib.Limit(), extra.Limit) }\n",
	"program/main_test.go": "package main\n\nimport \"example.com/lib/libtest\"\n\nfunc init() { libtest.New() }\n",
	"api/dependencies.txt": "example.com/lib\nexample.com/lib/extra\nbesides, for tests of a consumer\n\texample.com/assert\n",
}

const toolProgram = `package main

import (
	"fmt"
	"runtime/debug"

	"example.com/lib"
)

func main() {
	info, _ := debug.ReadBuildInfo()
	fmt.Println(info.Main.Version, lib.Limit())
}
`

func TestCheck(t *testing.T) {
	upstream := t.TempDir()
	library := t.TempDir()
	write(t, library, map[string]string{
		"go.mod":    "module example.com/assert\ngo 1.25.0\n",
		"assert.go": "package assert\n",
	})
	require.NoError(t, pack(upstream, library,
		&goModule{Path: "example.com/assert", GoMod: filepath.Join(library, "go.mod")}, "v1.0.0"))
	t.Setenv("GOPROXY", "file://"+filepath.ToSlash(upstream))
	t.Setenv("GOFLAGS", "-mod=readonly")
	t.Setenv("GONOSUMDB", "example.com")

	for name, test := range map[string]struct {
		files map[string]string // replaced in the repository
		fails string
	}{
		"sound": {},
		"replace": {
			map[string]string{"extra/go.mod": repository["extra/go.mod"] + "replace example.com/lib => ../\n"},
			"extra/go.mod: replace of example.com/lib",
		},
		"exclude": {
			map[string]string{"go.mod": repository["go.mod"] + "exclude example.com/assert v1.1.0\n"},
			"go.mod: exclude of example.com/assert",
		},
		"two versions": {
			map[string]string{"extra/go.mod": "module example.com/lib/extra\ngo 1.25.0\nrequire example.com/lib v0.0.9\n"},
			"use one version",
		},
		"a module that is not published": {
			map[string]string{"extra/go.mod": repository["extra/go.mod"] + "require example.com/lib/integration v0.1.0\n"},
			"requires example.com/lib/integration: it is not published",
		},
		"a package that only go.work finds": {
			map[string]string{"extra/extra.go": "package extra\n\nimport _ \"example.com/lib/integration\"\n\nvar Limit = 1\n"},
			"example.com/lib/integration",
		},
		"an ignored file": {
			map[string]string{".gitignore": "secret.go\n", "secret.go": "package lib\n\nconst one = 1\n",
				"lib.go": "package lib\n\nfunc Limit() int { return one }\n"},
			"undefined: one",
		},
		"a dependency of tests in the library": {
			map[string]string{"lib.go": "package lib\n\nimport _ \"example.com/assert\"\n\nfunc Limit() int { return 1 }\n"},
			"consumers get other modules than api/dependencies.txt lists",
		},
		"a package without a use": {
			map[string]string{"more/more.go": "package more\n"},
			"does not use example.com/lib/more",
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
			c := check{root: root, dir: t.TempDir(), program: filepath.Join(root, "program")}
			err := c.run(t.Context())
			if test.fails == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.fails)
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
