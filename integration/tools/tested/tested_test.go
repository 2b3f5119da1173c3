// Package tested prints at the end of make test what it has run.
package tested

import (
	"cmp"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
)

const root = "../../.."

// Every folder with tests belongs to a module that make test runs. With -v it prints a line per group.
func TestMakeTest_Groups_HaveAllTests(t *testing.T) {
	// What test-integration leaves out, in the Makefile.
	elsewhere := map[string]string{
		"compatibility/proxies": "make test-proxies",
		"containers":            "make test-containers",
		"linear/mutants":        "make test-faults",
		"tools/alloy":           "make model",
	}
	tested := map[string]bool{}
	for _, module := range lines(t, root, "go", "list", "-m", "-f", "{{.Dir}}") {
		group := "library"
		if folder, err := filepath.Rel(absolute(t), module); err == nil && folder != "." {
			group = folder
		}
		packages, left := 0, []string(nil)
		const withTests = "{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}"
		for _, dir := range lines(t, module, "go", "list", "-f", withTests, "./...") {
			tested[dir] = true
			if command := elsewhere[strings.TrimPrefix(dir, module+"/")]; group == "integration" && command != "" {
				left = append(left, command)
				continue
			}
			packages++
		}
		require.Positive(t, packages, "%s has no tests", group)
		redis := "on a Redis in memory"
		if group == "integration" {
			redis = "on " + version(t) + " and with Redisson " + strings.Join(oracle.VersionsToTest(), ", ") +
				"; not " + strings.Join(left, " and ")
		}
		t.Logf("%s: packages with tests: %d, %s", group, packages, redis)
	}
	t.Log("fetch-check: each published module, as a consumer fetches, builds and installs it")

	require.NoError(t, filepath.WalkDir(absolute(t), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "bin" || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, "_test.go") {
			require.True(t, tested[filepath.Dir(path)], "make test does not run %s", path)
		}
		return err
	}))
}

func absolute(t *testing.T) string {
	path, err := filepath.Abs(root)
	require.NoError(t, err)
	return path
}

func version(t *testing.T) string {
	server := cmp.Or(os.Getenv("REDIS_SERVER"), "redis-server")
	words := strings.Fields(lines(t, root, server, "--version")[0]) // Redis server v=7.0.15 sha=...
	require.Greater(t, len(words), 2, "%s --version", server)
	return words[0] + " " + strings.TrimPrefix(words[2], "v=")
}

func lines(t *testing.T, dir, name string, args ...string) []string {
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = dir
	out, err := command.Output()
	require.NoError(t, err, "%s %v", name, args)
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
}
