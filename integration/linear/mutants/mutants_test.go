// Package mutants_test shows that the histories of package linear find defects: it builds them with a
// defect in the library, and requires that one of 200 histories fails.
package mutants_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/golden"
)

// defect is a change of one file of the library.
type defect struct {
	file, old, new string
	test           string // that finds it
}

const answer = "func (p *protocol) Answer(b *engine.Batch, message rueidis.RedisMessage) (again bool, err error) {\n"

// kept is a variable, and twice the text that sometimes replaces a reply by the one in it.
const (
	kept  = "var kept = make(chan rueidis.RedisMessage, 1)\n"
	twice = `
select {
case kept <- message:
default:
	if time.Now().Nanosecond()%20 == 0 {
		select {
		case message = <-kept:
		default:
		}
	}
}
`
)

var defects = map[string]defect{
	"a grant is dropped": {"internal/include/grant.lua", "failed = redis.pcall('ZADD', permitsKey, grantedAt, member)", "failed = 1",
		"TestLimiter_GoClients"},
	"a prefetch is used 1 ms after its end": {"internal/engine/prefetch.go", "return s.Lasts - elapsed(",
		"return s.Lasts + time.Millisecond - elapsed(", "TestPrefetched"},
	"a reply is delivered twice": {"protocol.go", answer, kept + answer + twice, "TestLimiter_GoClients"},
}

func TestHistories_DefectInTheLibrary_IsFound(t *testing.T) {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	for name, d := range defects {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			source := golden.Text(t, filepath.Join(root, d.file))
			require.Equal(t, 1, strings.Count(source, d.old), "the text of the defect in %s", d.file)
			changed := strings.Replace(source, d.old, d.new, 1)
			replaced := map[string]string{filepath.Join(root, d.file): filepath.Join(dir, "file")}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte(changed), 0o600))
			overlay, err := json.Marshal(map[string]any{"Replace": replaced})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))

			run := exec.Command("go", "test", "-count=1", "-overlay", filepath.Join(dir, "overlay.json"), "-run", d.test, "..")
			run.Env = append(os.Environ(), "HISTORIES=200")
			output, err := run.CombinedOutput()
			require.Error(t, err, "200 histories without a defect")
			require.Contains(t, string(output), "SEED=", "the defect makes a history fail")
			_, seed, _ := strings.Cut(string(output), "SEED=")
			t.Log("found by SEED=" + strings.Fields(seed)[0])
		})
	}
}
