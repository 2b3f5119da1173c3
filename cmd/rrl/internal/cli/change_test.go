package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// TestChanges_Commands_ReportTheResult: results and exit codes of set, try, release and reset.
func TestChanges_Commands_ReportTheResult(t *testing.T) {
	s := startRedis(t)
	require.Equal(t, "api: 10/1h OVERALL, new\n", s.on("set", "api", "10/1h"))
	require.Equal(t, "granted: 4 of api, 6 left of 10\n", s.on("try", "api", "-n", "4"))
	r := s.ends(exitDenied, "try", "api", "-n", "7")
	require.Contains(t, r.out, "denied: 7 of api, 6 left of 10, retry after ")
	require.Empty(t, r.err)

	// Taken permits stay taken.
	require.Equal(t, "api: 20/1h OVERALL, keep-alive 2h, was 10/1h OVERALL\n",
		s.on("set", "api", "20/1h", "--keep-alive", "2h"))
	require.Contains(t, s.on("try", "api", "-n", "1"), "15 left of 20")
	require.Equal(t, "api: 30/1h OVERALL, keep-alive 2h, was 20/1h OVERALL, keep-alive 2h\n", s.on("set", "api", "30/1h"))
	require.Equal(t, "released: up to 2 of api\n", s.on("release", "api", "-n", "2"))
	require.Contains(t, s.on("show", "api"), "free        27")
	require.Equal(t, "reset: api OVERALL, 3 permits\n", s.on("reset", "api", "--yes"))
	require.Contains(t, s.on("show", "api"), "free        30")
	s.ends(exitDenied, "set", "api", "1/s", "--if-absent")
	require.Contains(t, s.on("show", "api"), "30 in 1h")

	// A PER_CLIENT limiter: this tool is no client of it, and leaves no pair behind.
	s.on("set", "tenants", "5/1h", "--type", "per-client")
	s.on("set", "tenants", "6/1h")
	keys, err := s.words("KEYS", "*").AsStrSlice()
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"api", "tenants"}, keys)
	s.on("try", "tenants", "--client", client1, "-n", "2")
	s.on("try", "tenants", "--client", client2, "-n", "3")
	s.on("set", "tenants", "7/1h")
	require.Contains(t, s.on("audit"), "0 problems")
	require.Contains(t, s.on("ls"), "PER_CLIENT  7/1h   3      4     2")
	require.Equal(t, "reset: tenants client "+client1+", 2 permits\n",
		s.on("reset", "tenants", "--client", client1, "--yes"))
	require.Contains(t, s.on("ls"), "PER_CLIENT  7/1h   3      4     1")
	s.on("set", "tenants", "8/1h", "--forget", "--yes")
	require.Contains(t, s.on("ls"), "PER_CLIENT  8/1h   0      8     0")

	// Package limit.
	require.Equal(t, "granted: 2 of u, 1 left of 3\n",
		s.on("try", "u", "--policy", "fixed_window:3/1h", "--policy", "sliding_log:9/1h", "-n", "2"))
	require.Contains(t, s.on("show", "u", "--policy", "fixed_window:3/1h"), "taken       2 of 3")
	s.on("release", "u", "--policy", "fixed_window:3/1h")
	require.Equal(t, "reset: u sliding_log/1h, 2 permits\nreset: u fixed_window/1h, 1 permit\n",
		s.on("reset", "u", "--yes"))
	require.NotContains(t, s.on("ls"), "window")
	require.Equal(t, 2, strings.Count(s.on("ls", "-o", "json"), `"name"`))
}

// TestChanges_JSON_HasTheResult: and what it replaces.
func TestChanges_JSON_HasTheResult(t *testing.T) {
	s := startRedis(t)
	for _, test := range []struct{ line, want string }{
		{"set api 10/1h", `"type":"OVERALL","permits":10,"interval_ms":3600000,"keep_alive_ms":0,"set":true`},
		{"set api 20/1h --keep-alive 2h", `"type":"OVERALL","permits":20,"interval_ms":3600000,"keep_alive_ms":7200000,
			"set":true,"was":{"type":"OVERALL","permits":10,"interval_ms":3600000,"keep_alive_ms":0}`},
		{"set api 30/1h --if-absent",
			`"type":"OVERALL","permits":30,"interval_ms":3600000,"keep_alive_ms":7200000,"set":false`},
		{"release api -n 2", `"released_at_most":2`},
		{"reset api --yes", `"reset":"OVERALL","taken":0`},
	} {
		r := tool(append(strings.Fields(test.line), "-o", "json", "--redis", s.url())...)
		require.JSONEq(t, `{"limiter":"api",`+test.want+`}`, r.out, r.err)
	}
}

// TestTry_Wait_UntilPermitsReturn: if they return in time.
func TestTry_Wait_UntilPermitsReturn(t *testing.T) {
	s := startRedis(t)
	s.on("set", "api", "1/200ms")
	s.on("try", "api")
	require.Contains(t, s.on("try", "api", "--wait", "10s"), "granted: 1 of api, 0 left of 1")
	s.on("set", "api", "1/1h")
	r := s.ends(exitDenied, "try", "api", "--wait", "100ms")
	require.Contains(t, r.out, "denied: 1 of api, 0 left of 1, retry after ")
}

// TestServerTime_HostClockWrong_UsesTheServers: grants are dated and counted by the server's clock.
func TestServerTime_HostClockWrong_UsesTheServers(t *testing.T) {
	s := startRedis(t)
	wrong := func() time.Time { return time.Now().Add(-3 * time.Hour) }
	s.on("set", "api", "10/1h")
	require.Equal(t, exitDone, toolAt(wrong, "try", "api", "-n", "3", "--server-time", "--redis", s.url()).code)
	require.Contains(t, s.on("show", "api"), "free        7")
	require.Contains(t, toolAt(wrong, "show", "api", "--server-time", "--redis", s.url()).out, "taken       3,")
	require.Contains(t, toolAt(wrong, "audit", "--redis", s.url()).out, "in the future")
}

func TestSet_KeyOfAnotherType_IsNotReplaced(t *testing.T) {
	s := startRedis(t)
	s.run("SET a text")
	require.NotContains(t, s.corrupt("a"), "rrl set")
	require.Contains(t, s.corrupt("a"), "choose another name")
	s.ends(exitError, "set", "a", "5/1h", "--yes")
	require.NotContains(t, tool("set", "a", "5/1h", "--redis", s.url()).err, "--yes", "it would not do that either")
	holds(t, s, "GET a=text")
}

// TestPause_Zero_EndsAPenalty, which show and ls report.
func TestPause_Zero_EndsAPenalty(t *testing.T) {
	s := startRedis(t)
	l := limit.New(rratelimiter.New(s.Client), "api", limit.FixedWindow{Permits: 1, Interval: time.Hour},
		limit.Penalty{Denials: 2, Within: time.Hour, For: 10 * time.Hour})
	take := func() {
		require.NoError(t, redistest.Err(l.TryAcquire(t.Context(), 1)))
	}
	take()
	take()
	require.Contains(t, s.on("show", "api"), "kind        package limit, penalty\n  paused      no\n")
	take()
	require.Contains(t, s.on("show", "api"), "kind        package limit, penalty\n  paused      for 10h\n")
	require.Contains(t, s.on("show", "api"), "wrong       nothing\n")
	require.Contains(t, s.on("ls"), "paused for 10h")
	require.Contains(t, s.on("audit"), "0 problems")
	s.ends(exitDenied, "try", "api", "--policy", "fixed_window:9/1h", "--policy", "penalty:2,within=1h,for=10h")
	require.Equal(t, "not paused: api\n", s.on("pause", "api", "0"))
	require.NotContains(t, s.on("show", "api"), "penalty")
}

// TestPause_Program_IsDenied by a pause of the tool, until the tool ends it.
func TestPause_Program_IsDenied(t *testing.T) {
	s := startRedis(t)
	l := limit.New(rratelimiter.New(s.Client), "api", limit.FixedWindow{Permits: 5, Interval: time.Hour},
		limit.Pause{Most: time.Minute})
	require.Equal(t, "paused: api, for 1h, in programs whose limiter has a limit.Pause\n", s.on("pause", "api", "1h"))
	require.InDelta(t, time.Hour, redistest.Result(t, l.Take, 1).RetryAfter, float64(time.Minute))
	require.Equal(t, "paused: api, for 1h by a longer pause\n", s.on("pause", "api", "30s"))
	shown := s.on("show", "api")
	require.Contains(t, shown, "kind        package limit, pause\n")
	require.Contains(t, shown, "paused      for 1h\n")
	require.Contains(t, shown, "wrong       nothing\n")
	require.Contains(t, s.on("ls"), "paused for 1h")
	require.Contains(t, s.on("ls", "-o", "json"), `"paused_ms":3`)
	require.Contains(t, s.on("show", "api", "-o", "json"), `"paused_ms":3`)
	require.Contains(t, s.on("audit"), "0 problems")
	s.ends(exitDenied, "try", "api", "--policy", "fixed_window:5/1h", "--policy", "pause:most=1h")
	require.Equal(t, "not paused: api\n", s.on("pause", "api", "0"))
	require.True(t, redistest.Result(t, l.TryAcquire, 5))
	require.JSONEq(t, `{"limiter":"api","paused_ms":0}`, s.on("pause", "api", "0", "-o", "json"))
	for _, args := range [][]string{{"pause"}, {"pause", "api"}, {"pause", "", "1s"}, {"pause", "api", "x"},
		{"pause", "api", "--", "-1s"}} {
		require.Equal(t, exitError, tool(append(args[:len(args):len(args)], "--redis", s.url())...).code, "%q", args)
	}
}
