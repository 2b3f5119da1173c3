package rls

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// TestReload_FileWrittenInPlace_IsNotTakenHalfWritten: files are taken, and errors reported, if two reads are equal.
func TestReload_FileWrittenInPlace_IsNotTakenHalfWritten(t *testing.T) {
	conn, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{miniredis.RunT(t).Addr()}, DisableCache: true, ForceSingleClient: true})
	require.NoError(t, err)
	defer conn.Close()
	file := filepath.Join(t.TempDir(), "x.yaml")
	text := "domain: x\ndescriptors:\n"
	s := (*Server)(nil)
	for i, step := range []struct {
		add    string // what is written behind what is there
		limits int    // in force behind the next read
		again  bool   // another read has to follow
		wrong  bool
	}{
		{"  - {key: a, rate_limit: {unit: second, requests_per_unit: 1}}\n", 1, false, false}, // as it is when the server begins
		{"", 1, false, false},
		{"  - {key: b, rate_limit: {unit: second, requests_per_unit: 1}}\n", 1, true, false},
		{"  - {key: c, rate_limit: {unit: second, requests_per_unit: 1}}\n", 1, true, false},
		{"", 3, false, false},
		{"", 3, false, false},
		{"  - {ke", 3, true, false},
		{"y: d, rate_limit: {unit: second, requests_per_unit: 1}}\n", 3, true, false},
		{"", 4, false, false},
		{"  - {ke", 4, true, false},
		{"", 4, false, true},
		{"", 4, false, false},
	} {
		text += step.add
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		again, err := false, error(nil)
		if s == nil {
			s, err = New(Config{Client: rratelimiter.New(conn), Path: file, Log: slog.New(slog.DiscardHandler)})
		} else {
			s.files.Report = func(reported error) { err = reported }
			again = s.files.Look(t.Context())
		}
		assert.Equal(t, step.wrong, err != nil, "%d: %v", i, err)
		assert.Equal(t, step.again, again, i)
		assert.Equal(t, step.limits, s.rules.Load().Len(), i)
	}
}
