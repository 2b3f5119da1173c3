package rules

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// watched is a file that is followed, and the results of its reloads.
type watched struct {
	*testing.T
	*Set
	path    string
	reports chan error
}

// following follows a file by the notifications of the system, without a poll unless options set
// one.
func following(t *testing.T, path string, opts ...WatchOption) *watched {
	w := &watched{t, nil, path, make(chan error, 100)}
	ctx, end := context.WithCancel(t.Context())
	t.Cleanup(end)
	every := func(w *watch) { w.files.Every = time.Hour }
	opts = append([]WatchOption{every, OnReload(func(err error) { w.reports <- err })}, opts...)
	set, err := Watch(ctx, path, opts...)
	require.NoError(t, err)
	w.Set = set
	return w
}

// wait returns the result of the next reload.
func (w *watched) wait() error {
	w.Helper()
	select {
	case err := <-w.reports:
		return err
	case <-time.After(time.Minute):
		w.Fatal("no reload in a minute")
		return nil
	}
}

// becomes waits for a reload, after which the rules have these names.
func (w *watched) becomes(names ...string) {
	w.Helper()
	require.NoError(w, w.wait())
	w.is(names...)
}

func (w *watched) is(names ...string) {
	w.Helper()
	assert.Equal(w, names, namesOf(w.Set))
}

func namesOf(s *Set) []string { return s.inside().File().Names() }

func write(t testing.TB, path, text string) {
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// put writes another file and renames it.
func put(t testing.TB, path, text string) {
	write(t, path+".new", text)
	require.NoError(t, os.Rename(path+".new", path))
}

// named is a file of rules of these names.
func named(names ...string) string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for _, name := range names {
		fmt.Fprintf(&b, "  - {name: %s, match: %q, key: ip, limits: 10/s}\n", name, "/"+name)
	}
	return b.String()
}

// The file is written in place, renamed, removed and created again.
func TestWatch_FileChanges_IsReloaded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.yaml")
	_, err := Watch(t.Context(), path)
	require.ErrorIs(t, err, os.ErrNotExist)
	write(t, path, "rules: 5")
	_, err = Watch(t.Context(), path)
	require.ErrorContains(t, err, "want a list")

	write(t, path, named("a"))
	w := following(t, path)
	w.is("a")

	write(t, path, named("b")) // in place: it is empty first, for an unknown time
	err = w.wait()
	for err != nil && strings.Contains(err.Error(), "empty") {
		err = w.wait()
	}
	require.NoError(t, err)
	w.is("b")

	put(t, path, named("c")) // as editors do
	w.becomes("c")

	require.NoError(t, os.Rename(path, path+"~")) // as other editors do
	assert.ErrorIs(t, w.wait(), os.ErrNotExist)
	w.is("c")
	put(t, path, named("d"))
	w.becomes("d")

	require.NoError(t, os.Remove(path))
	assert.ErrorIs(t, w.wait(), os.ErrNotExist)
	put(t, path, named("f"))
	w.becomes("f")
	assert.Empty(t, w.reports)
}

// A link to a directory changes, as in a release.
func TestWatch_LinkOnThePathChanges_IsReloaded(t *testing.T) {
	base := t.TempDir()
	release := func(version string) {
		require.NoError(t, os.Mkdir(filepath.Join(base, version), 0o700))
		write(t, filepath.Join(base, version, "rules.yaml"), named(version))
		require.NoError(t, os.Symlink(version, filepath.Join(base, "next")))
		require.NoError(t, os.Rename(filepath.Join(base, "next"), filepath.Join(base, "current")))
	}
	release("a")
	w := following(t, filepath.Join(base, "current", "rules.yaml"))
	for _, version := range []string{"b", "c"} { // by the check at the start, and by a notification
		release(version)
		w.becomes(version)
	}
}

func TestWatch_DirectoryIsRenamed_IsReloaded(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "etc")
	require.NoError(t, os.Mkdir(dir, 0o700))
	write(t, filepath.Join(dir, "rules.yaml"), named("a"))
	w := following(t, filepath.Join(dir, "rules.yaml"))
	put(t, w.path, named("b"))
	w.becomes("b")
	require.NoError(t, os.Mkdir(filepath.Join(base, "new"), 0o700))
	write(t, filepath.Join(base, "new", "rules.yaml"), named("c"))
	require.NoError(t, os.Rename(dir, filepath.Join(base, "old")))
	require.NoError(t, os.Rename(filepath.Join(base, "new"), dir))
	for err := w.wait(); err != nil; err = w.wait() { // the directory may be missing for a moment
	}
	w.is("c")
	put(t, w.path, named("d"))
	w.becomes("d")
}
