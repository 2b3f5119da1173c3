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
)

// defect is a change of one file of the library.
type defect struct {
	file, old, new string
	test           string // that finds it
}

// twice is a file that the defect of replies needs.
const twice = `package rratelimiter

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/redis/rueidis"
)

var last atomic.Pointer[rueidis.RedisMessage]

// twice sometimes returns the message before.
func twice(message rueidis.RedisMessage) rueidis.RedisMessage {
	before := last.Swap(&message)
	if before != nil && rand.IntN(20) == 0 {
		return *before
	}
	return message
}
`

const answer = "func (w *wire) Answer(b *engine.Batch, message rueidis.RedisMessage) (again bool, err error) {\n"

var defects = map[string]defect{
	"a grant is dropped": {"script.lua", "failed = redis.pcall('ZADD', permitsKey, grantedAt, member)", "failed = 1",
		"TestLimiter_GoClients"},
	"a lease is used 1 ms after its end": {"internal/engine/lease.go", "return s.Lasts - max(",
		"return s.Lasts + time.Millisecond - max(", "TestLeased"},
	"a reply is delivered twice": {"reply.go", answer, answer + "message = twice(message)\n", "TestLimiter_GoClients"},
}

func TestHistories_DefectInTheLibrary_IsFound(t *testing.T) {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	for name, d := range defects {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			source, err := os.ReadFile(filepath.Join(root, d.file))
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(string(source), d.old), "the text of the defect in %s", d.file)
			changed := strings.Replace(string(source), d.old, d.new, 1)
			replaced := map[string]string{
				filepath.Join(root, d.file):     filepath.Join(dir, "file"),
				filepath.Join(root, "twice.go"): filepath.Join(dir, "twice"),
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte(changed), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "twice"), []byte(twice), 0o600))
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
