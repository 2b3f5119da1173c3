// Package tested prints at the end of make test what ran.
package tested

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/internal/golden"
)

const root = "../../.."

// elsewhere has the packages that make test leaves to other targets.
var elsewhere = []struct{ folder, target string }{
	{"integration/compatibility/proxies", "make test-proxies"},
	{"integration/linear/mutants", "make test-faults"},
	{"integration/tools/alloy", "make model"},
}

var (
	passed = regexp.MustCompile(`(?m)^ok +\tgithub\.com/rratelimiter/rratelimiter(\S*)\t`)
	took   = regexp.MustCompile(`(?m)^took (\S+) s, CPU (\S+) s \+ (\S+) s$`)
	notRun = regexp.MustCompile(`(?m)^not run: .*$`)
	images = regexp.MustCompile(`(?m)^images: (.*)$`)
)

// TestMakeTest reads what the groups of make test have written. Every package with tests has run,
// or belongs to another target.
func TestMakeTest_EveryPackage_HasRun(t *testing.T) {
	written := os.Getenv("TESTED")
	if written == "" {
		t.Skip("make test sets TESTED to the folder with the output of its groups")
	}
	ran := map[string]bool{"integration/tools/tested": true}
	var report, missing strings.Builder
	var real, cpu time.Duration
	for _, group := range []struct{ name, on string }{
		{"modules", "on a Redis in memory"},
		{"fetch", "each published module as a consumer fetches, builds and installs it"},
		{"integration", "on " + version(t) + ", with Redisson " + strings.Join(oracle.VersionsToTest(), ", ")},
		{"containers", "on images"},
	} {
		content := golden.Text(t, filepath.Join(written, group.name))
		output := content
		packages := passed.FindAllStringSubmatch(output, -1)
		for _, match := range packages {
			ran[path.Join(".", match[1])] = true
		}
		if reason := notRun.FindString(output); reason != "" {
			fmt.Fprintln(&missing, reason)
			ran["integration/"+group.name] = true
			continue
		}
		if match := images.FindStringSubmatch(output); match != nil {
			group.on = "on " + match[1]
		}
		times := took.FindStringSubmatch(output)
		require.NotNil(t, times, "%s has no times", group.name)
		groupReal, groupCPU := seconds(t, times[1]), seconds(t, times[2])+seconds(t, times[3])
		real, cpu = real+groupReal, cpu+groupCPU
		fmt.Fprintf(&report, "%-11s %s, CPU %s: ", group.name, groupReal, groupCPU)
		if len(packages) > 0 {
			fmt.Fprintf(&report, "%d packages ", len(packages))
		}
		fmt.Fprintln(&report, group.on)
	}
	for _, other := range elsewhere {
		fmt.Fprintf(&missing, "not run: %s: %s\n", other.folder, other.target)
		ran[other.folder] = true
	}
	t.Logf("\n%s%sall         %s, CPU %s", &report, &missing, real, cpu)

	for _, folder := range folders(t) {
		require.True(t, ran[folder], "make test has not run %s", folder)
	}
}

// folders returns the folders with tests.
func folders(t *testing.T) (found []string) {
	require.NoError(t, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "bin" || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(name, "_test.go") {
			folder, err := filepath.Rel(root, filepath.Dir(name))
			require.NoError(t, err)
			found = append(found, filepath.ToSlash(folder))
		}
		return err
	}))
	return found
}

func seconds(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(text + "s")
	require.NoError(t, err)
	return d.Round(time.Second)
}

// version returns the name and the version of the server of the suites.
func version(t *testing.T) string {
	server := cmp.Or(os.Getenv("REDIS_SERVER"), "redis-server")
	output, err := exec.CommandContext(t.Context(), server, "--version").Output()
	require.NoError(t, err, "%s --version", server)
	words := strings.Fields(string(output)) // Redis server v=7.0.15 sha=...
	require.Greater(t, len(words), 2, "%s --version", server)
	return words[0] + " " + strings.TrimPrefix(words[2], "v=")
}
