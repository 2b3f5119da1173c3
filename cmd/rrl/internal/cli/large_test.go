package cli

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// TestRead_LargeKeys_AreSkipped: the bytes that the server sends show that keys which are larger
// than a limiter's are not read.
func TestRead_LargeKeys_AreSkipped(t *testing.T) {
	s := startRedis(t)
	s.run("HSET a rate 10 interval 3600000 type 0", "SETRANGE {a}:value 30000000 1",
		"SETRANGE {o}:value:"+client1+" 30000000 1", "SETRANGE {u}:window:1000 30000000 1")
	s.words("EVAL", "for i = 1, 300000 do redis.call('HSET', '{u}:sliding:1000:20', i, i) end", "0")
	s.words("EVAL", "local text = string.rep('1', 1000000) for i = 1, 30 do redis.call('RPUSH', '{u}:log:1000', text) end", "0")
	s.words("EVAL", "redis.call('SET', '{v}:sliding:1000:10', 'epochs 1 1 1' .. string.rep(' 1:1', 3000000))", "0")
	sent := func() int {
		found := regexp.MustCompile(`total_net_output_bytes:(\d+)`).FindStringSubmatch(s.text("INFO", "stats"))
		n, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		return n
	}
	for _, args := range [][]string{
		{"ls"}, {"show", "a", "--all"}, {"show", "o"}, {"show", "u"}, {"show", "v"},
		{"watch", "a", "u", "--count", "2", "--every", "50ms"}, {"audit"}, {"audit", "--fix", "--yes"},
	} {
		before := sent()
		r := tool(append(args, "--redis", s.url())...)
		looked(t, args, r)
		require.Less(t, sent()-before, 200_000, args)
	}
	require.Contains(t, s.corrupt("u"), "which package limit does not write")
	require.Contains(t, s.on("show", "a"), "wrong")
}

// TestRead_LargeValidState_IsNoFinding: a log with many entries, a window with many cells, and a
// long name.
func TestRead_LargeValidState_IsNoFinding(t *testing.T) {
	s := startRedis(t)
	lib := rratelimiter.New(s.Client)
	ctx := context.Background()
	log := limit.New(lib, "u", limit.SlidingLog{Permits: 5000, Interval: time.Hour})
	for range 600 {
		_, err := log.TryAcquire(ctx, 1)
		require.NoError(t, err)
	}
	long := strings.Repeat("n", 1<<20)
	for _, p := range append(everyPolicy, limit.SlidingWindow{Permits: 5, Interval: time.Hour, Cells: 1000}) {
		for _, name := range []string{"u", long} {
			_, err := limit.New(lib, name, p).TryAcquire(ctx, 2)
			require.NoError(t, err)
		}
	}
	require.NotContains(t, s.on("show", "u"), "does not write")
	require.NotContains(t, s.on("show", long), "does not write")
	require.Contains(t, s.on("audit"), "0 problems")
}

func TestList_LongName_DoesNotWidenRows(t *testing.T) {
	s := startRedis(t)
	s.run("HSET " + strings.Repeat("n", 1<<20) + " rate 10 interval 1000 type 0")
	for i := range 50 {
		s.run(fmt.Sprintf("HSET limiter-%d rate 10 interval 1000 type 0", i))
	}
	list := s.on("ls")
	require.Less(t, len(list), 1<<20+20_000)
	require.Contains(t, list, "OVERALL")
	require.Contains(t, list, "\n"+strings.Repeat("n", 1<<20)+"  OVERALL")
}
