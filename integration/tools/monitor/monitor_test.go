package monitor

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// The monitor sees real calls on a real server, with any bytes.
func TestWatchGrants_RealServer_SeesEveryGrant(t *testing.T) {
	server := servers.Single(t)
	client := server.Client(t)
	limiter := rratelimiter.New(client).Limiter("watched")
	require.NoError(t, limiter.SetRate(t.Context(), rratelimiter.Rate{Permits: 1000, Interval: time.Minute}))
	grants := WatchGrants(t, server.Addr(), "{watched}:permits", time.Minute)
	defer grants.Close()
	begun := time.Now().Truncate(time.Millisecond)
	const calls = 300
	for range calls {
		granted, err := limiter.TryAcquire(t.Context(), 3)
		require.NoError(t, err)
		require.True(t, granted)
	}
	seen := grants.Seen(t)
	if !Quotes(t, server.Addr()) {
		require.NotEqualValues(t, 3*calls, seen.Permits, "what cannot be read must not be trusted")
		return
	}
	require.EqualValues(t, 3*calls, seen.Worst)
	require.EqualValues(t, 3*calls, seen.Permits)
	require.Equal(t, calls, seen.Added)
	require.Zero(t, seen.Unknown)
	require.False(t, seen.First.Before(begun))
	require.False(t, seen.Last.Before(seen.First))
	require.False(t, time.Now().Before(seen.Last))
	require.WithinRange(t, seen.When, begun, time.Now())
	require.EqualValues(t, 3*calls, grants.Between(seen.First, seen.Last.Add(time.Millisecond)))
	require.Less(t, grants.Between(seen.First, seen.Last), int64(3*calls))
}

// reported is what a monitor reports: scripts one after the other, each at a moment and with the commands
// that it runs.
type reported struct {
	at     int64 // Unix milliseconds
	script []Command
}

func command(words ...string) Command { return Command{Script: true, text: quoted(words)} }

func TestMonitor_Grants(t *testing.T) {
	const key = "{l}:permits"
	add := func(score, member string) Command { return command("ZADD", key, score, member) }
	remove := func(member string) Command { return command("zrem", key, member) }
	one, other := "\x04aaaa\x05\x00\x00\x00", "\x04bbbb\x04\x00\x00\x00"
	for name, test := range map[string]struct {
		reported       []reported
		worst, permits int64
	}{
		"nothing": {nil, 0, 0},
		"two grants": {[]reported{{1000, []Command{add("1000", one)}}, {1500, []Command{add("1500", other)}}},
			9, 9},
		"the first has just expired": {[]reported{{1000, []Command{add("1000", one)}}, {2000, []Command{add("2000", other)}}},
			5, 9},
		"the first expires in 1 ms": {[]reported{{1000, []Command{add("1000", one)}}, {1999, []Command{add("1999", other)}}},
			9, 9},
		// The call that grants is dated before the one that came first, and arrives after the
		// moment at which that one's grants leave.
		"a call that took long": {[]reported{{1000, []Command{add("1000", one)}},
			{2000, []Command{add("1999", other)}}}, 5, 9},
		"a clock ahead of the server's": {[]reported{{1000, []Command{add("1000", one)}},
			{1500, []Command{add("2000", other)}}}, 5, 9},
		"another limiter's": {[]reported{{1000, []Command{command("ZADD", "{m}:permits", "1000", one)}}}, 0, 0},
		"what a script takes out by rank or date goes on to count": {
			[]reported{{1000, []Command{add("1000", one)}},
				{1500, []Command{command("ZREMRANGEBYSCORE", key, "-inf", "1000"), command("UNLINK", key),
					add("1500", other)}}}, 9, 9},
		"given back in part": {
			[]reported{{1000, []Command{add("1000", one)}},
				{1001, []Command{add("1000", "\x04aaaa\x03\x00\x00\x00"), remove(one)}}}, 5, 3},
		"given back as a whole and granted again": {
			[]reported{{1000, []Command{add("1000", one)}}, {1001, []Command{remove(one), add("1001", other)}}}, 5, 4},
		"given back when it has left": {
			[]reported{{1000, []Command{add("1000", one)}}, {2000, []Command{remove(one), add("2000", other)}},
				{2001, []Command{add("2001", one)}}}, 9, 9},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGrants(key, time.Second)
			for _, script := range test.reported {
				at := time.UnixMilli(script.at)
				g.see(Command{At: at, text: `"EVALSHA"`})
				for _, c := range script.script {
					c.At = at
					g.see(c)
				}
			}
			g.conclude()
			require.Equal(t, test.worst, g.seen.Worst)
			require.Equal(t, test.permits, g.seen.Permits)
		})
	}
}

func quoted(words []string) string {
	var text []byte
	for _, word := range words {
		text = append(strconv.AppendQuote(text, word), ' ')
	}
	return string(text)
}
