package cli

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// drifted writes a limiter with a value and grants: the age of each, and its permits.
func drifted(s *server, rate int64, value string, grants ...[2]int64) {
	s.run(fmt.Sprintf("HSET a rate %d interval 3600000 type 0", rate), "SET {a}:value "+value)
	for len(grants) > 0 {
		n := min(len(grants), 500)
		words := []string{"ZADD", "{a}:permits"}
		for i, g := range grants[:n] {
			at := time.Now().Add(-time.Duration(g[0]) * time.Minute).UnixMilli()
			words = append(words, strconv.FormatInt(at, 10), grant(fmt.Sprintf("%08d", len(grants)-i), uint32(g[1])))
		}
		s.words(words...)
		grants = grants[n:]
	}
}

// ones is n grants of one permit, of which the first is the oldest.
func ones(n int64) (all [][2]int64) {
	for i := range n {
		all = append(all, [2]int64{1 + (n-i)/60, 1})
	}
	return all
}

// Drift is repaired by one count, whatever its cause: the value and the grants add up to the rate.
func TestAuditFix_Drift_IsCounted(t *testing.T) {
	s := startRedis(t)
	for _, test := range []struct {
		name   string
		rate   int64
		value  string
		grants [][2]int64 // age in minutes, permits; the interval is 60 minutes
		says   string
	}{
		{"released in Java", 10, "6", [][2]int64{{9, 3}, {8, 4}, {7, 1}}, "4 permits too many after a release in Java"},
		{"older grants have expired", 10, "3", [][2]int64{{70, 4}, {9, 3}, {8, 2}}, "2 permits too many"},
		{"many grants", 1000, "1000", ones(700), "700 permits too many after a release in Java"},
		{"the rate was lowered", 10, "90", [][2]int64{{9, 10}}, "the rate was lowered: 90 free and 10 in grants, at a rate of 10"},
		{"below what is taken", 10, "60", [][2]int64{{9, 40}}, "the rate was lowered"},
		{"permits were lost", 10, "1", [][2]int64{{9, 2}}, "7 permits are lost"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.TB = t
			s.run("FLUSHALL")
			drifted(s, test.rate, test.value, test.grants...)
			r := tool("audit", "--redis", s.url())
			require.Equal(t, exitDenied, r.code)
			require.Contains(t, r.out, test.says)
			require.Contains(t, r.out, "--fix would count the permits")
			r = tool("audit", "--fix", "--redis", s.url())
			require.Contains(t, r.out, "repaired: ")
			require.NotContains(t, tool("audit", "--redis", s.url()).out, "problem  value", "one repair is enough")
		})
	}
}

func TestAuditFix_DriftOfAClient_IsCounted(t *testing.T) {
	s := startRedis(t)
	s.run("HSET a rate 10 interval 3600000 type 1", "SET {a}:value:"+client1+" 1")
	s.words("ZADD", "{a}:permits:"+client1, fmt.Sprint(time.Now().UnixMilli()), grant("12345678", 2))
	require.Contains(t, s.on("audit", "--fix"), "repaired: ")
	holds(t, s, "GET {a}:value:"+client1+"=8")
}

// A set that the library does not count is reported, and stays.
func TestAudit_DriftOfALargeSet_IsReportedOnly(t *testing.T) {
	s := startRedis(t)
	drifted(s, 100_000, "1", ones(8193)...)
	before := s.text("DEBUG", "DIGEST")
	r := tool("audit", "--fix", "--redis", s.url())
	require.Equal(t, exitDenied, r.code)
	require.Contains(t, r.out, "a count of its permits takes at most 8192 grants, and it has 8193")
	require.NotContains(t, r.out, "repaired")
	require.Equal(t, before, s.text("DEBUG", "DIGEST"))
}

// interrupted is a connection beside which something happens ahead of each command.
type interrupted struct {
	rueidis.Client
	before func(command string)
}

func (c interrupted) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	c.before(command.Commands()[0])
	return c.Client.Do(ctx, command)
}

func (c interrupted) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	c.before(commands[0].Commands()[0])
	return c.Client.DoMulti(ctx, commands...)
}

// An audit that has left out keys has not shown that nothing is wrong.
func TestAudit_KeysLeftOut_ExitsWithOne(t *testing.T) {
	s := startRedis(t)
	for _, name := range []string{"a", "b", "c"} {
		put(s, name, "9", grant("12345678", 1))
	}
	r := tool("audit", "--max", "1", "--redis", s.url())
	require.Equal(t, exitDenied, r.code)
	require.Contains(t, r.out, "1 limiter, 0 problems\n"+
		"4 keys of others were skipped: use a PATTERN or raise --max\n")
	r = tool("audit", "--max", "1", "-o", "json", "--redis", s.url())
	require.Equal(t, exitDenied, r.code)
	require.Contains(t, r.out, `"left_out":4`)
	require.Equal(t, exitDone, tool("audit", "--redis", s.url()).code)
	require.Equal(t, exitDone, tool("audit", "a", "--max", "1", "--redis", s.url()).code)
}
