// Package release tests .ci/release, the script of make release.
package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/golden"
)

const repository = "../../.."

func TestRelease_CleanTree_SetsVersionsAndTags(t *testing.T) {
	c := newClone(t)
	before := c.git("rev-parse", "HEAD")

	output, err := c.release("v0.9.0", "true")
	require.NoError(t, err, output)

	require.Equal(t, strings.Fields(`cmd/rrl/v0.9.0 grpclimit/v0.9.0 otellimit/v0.9.0 rules/v0.9.0 v0.9.0`),
		strings.Fields(c.git("tag", "--points-at", "HEAD")))
	require.Equal(t, before, c.git("rev-parse", "HEAD^"), "one commit")
	require.Empty(t, c.git("status", "--porcelain"))
	require.Equal(t, before, c.git("rev-parse", "@{upstream}"), "nothing is pushed")
	require.Contains(t, c.read("CHANGELOG.md"),
		"## [Unreleased]\n\n## [0.9.0] - "+time.Now().UTC().Format(time.DateOnly)+"\n")
	for _, name := range strings.Fields(c.git("ls-files", "*go.mod", "go.work")) {
		for line := range strings.Lines(c.read(name)) {
			if strings.HasPrefix(line, "\tgithub.com/rratelimiter/rratelimiter") {
				require.Contains(t, line, " v0.9.0", name)
			}
		}
	}
}

// gorelease requires a tree without changes. It gets the highest release below the new one.
func TestRelease_EarlierReleases_ComparesTheAPIWithThePrevious(t *testing.T) {
	c := newClone(t)
	for _, tag := range []string{"v0.8.0", "v0.8.10", "v0.8.9", "v0.9.0-rc.1", "v0.10.0"} {
		c.git("tag", tag)
	}
	log := filepath.Join(t.TempDir(), "log")
	gorelease := filepath.Join(t.TempDir(), "gorelease")
	require.NoError(t, os.WriteFile(gorelease,
		[]byte("#!/bin/sh\n[ -z \"$(git status --porcelain)\" ] && echo \"$@\" >> "+log+"\n"), 0o755))
	t.Setenv("GORELEASE", gorelease)

	output, err := c.release("v0.9.0", "true")
	require.NoError(t, err, output)
	require.Contains(t, c.git("tag", "--points-at", "HEAD"), "rules/v0.9.0")
	calls := golden.Text(t, log)
	require.Equal(t, strings.Repeat("-base=v0.8.10 -version=v0.9.0\n", 5), calls, "one for each module")

	before := c.git("rev-parse", "HEAD")
	t.Setenv("GORELEASE", "false")
	output, err = c.release("v0.9.1", "true")
	require.Error(t, err, output)
	require.Equal(t, before, c.git("rev-parse", "HEAD"))
	require.Empty(t, c.git("status", "--porcelain"))
	require.Empty(t, c.git("tag", "--list", "v0.9.1"))
}

func TestRelease_Unfit_ChangesNothing(t *testing.T) {
	unfit := newClone(t)
	before := unfit.git("rev-parse", "HEAD")
	for name, test := range map[string]struct {
		version, check string
		prepare        func(*clone)
		fails          string
	}{
		"no version":         {"", "true", nil, "is not a version"},
		"no semver":          {"0.1", "true", nil, "is not a version"},
		"leading zero":       {"v0.09.0", "true", nil, "is not a version"},
		"no pre-release":     {"v0.9.0-rc..1", "true", nil, "is not a version"},
		"refused commit":     {"v0.9.0", "true", refuseReleases, "refused"},
		"version 2":          {"v2.0.0", "true", nil, "needs /v2"},
		"failing checks":     {"v0.9.0", "false", nil, "the checks failed"},
		"changed tree":       {"v0.9.0", "true", func(c *clone) { c.write("new", "") }, "the tree has changes"},
		"existing tag":       {"v0.9.1", "true", func(c *clone) { c.git("tag", "rules/v0.9.1") }, "tag rules/v0.9.1 exists"},
		"no changes to date": {"v0.9.0", "true", func(c *clone) { c.commit("CHANGELOG.md", "# Changelog\n") }, "no heading"},
		// The changes are kept, and not released.
		"commit during the checks": {"v0.9.0", "git commit -q --allow-empty -m change", nil, "has changed during the checks"},
		"file during the checks":   {"v0.9.0", "touch new", nil, "has changed during the checks"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.prepare != nil {
				test.prepare(unfit)
			}
			prepared, status := unfit.git("rev-parse", "HEAD"), unfit.git("status", "--porcelain")
			output, err := unfit.release(test.version, test.check)
			require.Error(t, err)
			require.Contains(t, output, test.fails)
			if strings.HasSuffix(name, "during the checks") {
				require.NotEqual(t, prepared+status, unfit.git("rev-parse", "HEAD")+unfit.git("status", "--porcelain"))
			} else {
				require.Equal(t, prepared, unfit.git("rev-parse", "HEAD"))
				require.Equal(t, status, unfit.git("status", "--porcelain"))
			}
			require.Empty(t, unfit.git("tag", "--list", "v0.9.0"))
			unfit.git("reset", "-q", "--hard", before)
			unfit.git("clean", "-q", "-f", "-d")
		})
	}
}

// refuseReleases has git refuse the commit of a release.
func refuseReleases(c *clone) {
	c.write(".git/hooks/commit-msg", "#!/bin/sh\n! grep release $1 || { echo refused; exit 1; }\n")
}

// clone is a clone of this repository with its present script and modules.
type clone struct {
	t   *testing.T
	dir string
}

func newClone(t *testing.T) *clone {
	t.Helper()
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "test")
		t.Setenv("GIT_"+who+"_EMAIL", "test@example.com")
	}
	// The script runs in a clone of a clone, whose remote is no repository of anybody.
	dir := t.TempDir()
	origin := filepath.Join(dir, "origin")
	for _, args := range [][]string{
		{"clone", "-q", "--bare", "--no-tags", repository, origin},
		{"clone", "-q", origin, filepath.Join(dir, "clone")},
	} {
		output, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
		require.NoError(t, err, string(output))
	}
	c := &clone{t, filepath.Join(dir, "clone")}
	c.git("checkout", "-q", "-B", "release")
	script := golden.Text(t, filepath.Join(repository, ".ci/release"))
	c.write(".ci/release", script)
	c.git("add", ".")
	c.git("commit", "-q", "--allow-empty", "-m", "the present script")
	c.git("push", "-q", "-u", "origin", "release")
	return c
}

func (c *clone) git(args ...string) string {
	c.t.Helper()
	git := exec.CommandContext(c.t.Context(), "git", args...)
	git.Dir = c.dir
	output, err := git.CombinedOutput()
	require.NoError(c.t, err, string(output))
	return strings.TrimSpace(string(output))
}

func (c *clone) release(version, check string) (string, error) {
	script := exec.CommandContext(c.t.Context(), ".ci/release")
	script.Dir, script.Env = c.dir, append(os.Environ(), "VERSION="+version, "CHECK="+check)
	output, err := script.CombinedOutput()
	return string(output), err
}

func (c *clone) commit(name, text string) {
	c.t.Helper()
	c.write(name, text)
	c.git("commit", "-q", "-a", "-m", "change")
}

func (c *clone) read(name string) string {
	c.t.Helper()
	text := golden.Text(c.t, filepath.Join(c.dir, name))
	return text
}

func (c *clone) write(name, text string) {
	c.t.Helper()
	require.NoError(c.t, os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o755))
}
