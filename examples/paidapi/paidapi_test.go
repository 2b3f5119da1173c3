package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestMain lets the test binary be a process of the example.
func TestMain(m *testing.M) {
	if os.Getenv(taskEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// startRedis starts a redis-server and returns its URL.
func startRedis(t *testing.T) string {
	address := redistest.Unused(t)
	host, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	server := exec.Command("redis-server", "--port", port, "--bind", host, "--save", "", "--dir", t.TempDir())
	require.NoError(t, server.Start(), "install redis-server")
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	return "redis://" + address
}

var summary = regexp.MustCompile(`(?m)^(without|with) limit.Pause: (\d+) requests served, (\d+) refused, (\d+) banned$`)

// TestPause_FiveProcesses_OneRequestIsRefused: without it, the provider bans all of them.
func TestPause_FiveProcesses_OneRequestIsRefused(t *testing.T) {
	t.Setenv("REDIS_URL", startRedis(t))
	var out strings.Builder
	picture := filepath.Join(t.TempDir(), "picture.svg")
	require.NoError(t, run([]string{"-svg", picture}, &out))

	runs := summary.FindAllStringSubmatch(out.String(), -1)
	require.Len(t, runs, 2, out.String())
	assert.NotEqual(t, "0", runs[0][4], "banned without a Pause\n%s", &out)
	assert.Equal(t, []string{"1", "0"}, runs[1][3:], "refused and banned with a Pause\n%s", &out)
	served, err := strconv.Atoi(runs[1][2])
	require.NoError(t, err)
	assert.Greater(t, served, tooMuch+10, "requests after the pause\n%s", &out)

	drawn, err := os.ReadFile(picture)
	require.NoError(t, err)
	for _, color := range []string{"#3fb950", "#d29922", "#f85149"} {
		assert.Contains(t, string(drawn), color)
	}
	require.Error(t, run([]string{"-nothing"}, &out))
}
