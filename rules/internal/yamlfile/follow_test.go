package yamlfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// replaced writes another file and renames it, as editors do.
func replaced(path, text string) error {
	return errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path))
}

// TestFollow_ChangeOfEachKind_IsApplied by a notification of the system, without a poll, and so is a
// change after it.
func TestFollow_ChangeOfEachKind_IsApplied(t *testing.T) {
	for name, change := range map[string]func(base string) error{
		"in place":     func(base string) error { return os.WriteFile(base+"/v1/file", []byte("new"), 0o600) },
		"another file": func(base string) error { return replaced(base+"/v1/file", "new") },
		"removed, created": func(base string) error {
			return errors.Join(os.Remove(base+"/v1/file"), replaced(base+"/v1/file", "new"))
		},
		"another link": func(base string) error {
			return errors.Join(os.Symlink("v2", base+"/next"), os.Rename(base+"/next", base+"/current"))
		},
		"another directory": func(base string) error {
			return errors.Join(os.Rename(base+"/v1", base+"/v0"), os.Rename(base+"/v2", base+"/v1"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			for folder, text := range map[string]string{"v1": "old", "v2": "new"} {
				require.NoError(t, os.Mkdir(filepath.Join(base, folder), 0o700))
				require.NoError(t, replaced(filepath.Join(base, folder, "file"), text))
			}
			require.NoError(t, os.Symlink("v1", filepath.Join(base, "current")))
			texts, settled := make(chan string, 100), make(chan bool, 100)
			w := &rulefile.Watcher{
				Path: filepath.Join(base, "current", "file"), Every: time.Hour, Report: func(error, bool) {},
				Idle: func() { settled <- true },
				Apply: func(sources []rulefile.Source, problem *rulefile.Problem) error {
					if problem == nil {
						texts <- string(sources[0].Data)
					}
					return nil
				},
			}
			require.NoError(t, w.Reload())
			go Follow(t.Context(), w)
			<-settled
			require.NoError(t, change(base))
			becomes(t, texts, "new")
			require.NoError(t, replaced(w.Path, "newer"))
			becomes(t, texts, "newer")
		})
	}
}

// becomes waits until a text is applied. A file that is written in place may be empty for a moment.
func becomes(t *testing.T, texts chan string, want string) {
	t.Helper()
	for end := time.After(time.Minute); ; {
		select {
		case text := <-texts:
			if text == want {
				return
			}
		case <-end:
			t.Fatalf("no %q in a minute", want)
		}
	}
}
