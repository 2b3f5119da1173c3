package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// TestPause_Program_IsDenied by a pause of the tool, until the tool ends it.
func TestPause_Program_IsDenied(t *testing.T) {
	s := startRedis(t)
	l := limit.New(rratelimiter.New(s.Client), "api", limit.FixedWindow{Permits: 5, Interval: time.Hour},
		limit.Pause{Most: time.Minute})
	require.Equal(t, "paused: api, for 1h, in programs whose limiter has a limit.Pause\n", s.on("pause", "api", "1h"))
	d, err := l.Take(t.Context(), 1)
	require.NoError(t, err)
	require.InDelta(t, time.Hour, d.RetryAfter, float64(time.Minute))
	require.Equal(t, "paused: api, for 1h by a longer pause\n", s.on("pause", "api", "30s"))
	shown := s.on("show", "api")
	require.Contains(t, shown, "kind        package limit, pause\n")
	require.Contains(t, shown, "paused      for 1h\n")
	require.Contains(t, shown, "wrong       nothing\n")
	require.Contains(t, s.on("ls"), "paused for 1h")
	require.Contains(t, s.on("ls", "-o", "json"), `"paused_ms":3`)
	require.Contains(t, s.on("show", "api", "-o", "json"), `"paused_ms":3`)
	require.Contains(t, s.on("audit"), "0 problems")
	r := tool("try", "api", "--policy", "fixed_window:5/1h", "--policy", "pause:most=1h", "--redis", s.url())
	require.Equal(t, exitDenied, r.code)
	require.Equal(t, "not paused: api\n", s.on("pause", "api", "0"))
	granted, err := l.TryAcquire(t.Context(), 5)
	require.NoError(t, err)
	require.True(t, granted)
	require.JSONEq(t, `{"limiter":"api","paused_ms":0}`, s.on("pause", "api", "0", "-o", "json"))
	for _, args := range [][]string{{"pause"}, {"pause", "api"}, {"pause", "", "1s"}, {"pause", "api", "x"},
		{"pause", "api", "--", "-1s"}} {
		require.Equal(t, exitError, tool(append(args[:len(args):len(args)], "--redis", s.url())...).code, "%q", args)
	}
}
