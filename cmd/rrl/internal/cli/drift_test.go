package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/audit"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
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

// Drift has three forms, and each its own correction (section "Drift" of the protocol).
func TestAudit_Drift_IsRepairedByItsCause(t *testing.T) {
	s := startRedis(t)
	for _, test := range []struct {
		name   string
		rate   int64
		value  string
		grants [][2]int64 // age in minutes, permits; the interval is 60 minutes
		says   string
		repair string
		stored string  // the value that is stored then
		left   []int64 // the permits of the grants that are left, the oldest first
	}{
		{
			"released in Java, a part", 10, "6", [][2]int64{{9, 3}, {8, 4}, {7, 1}},
			"4 permits too many after a release in Java", "remove the oldest grants of 4 permits", "6", []int64{3, 1},
		},
		{
			"released in Java, older grants have expired", 10, "3", [][2]int64{{70, 4}, {9, 3}, {8, 2}},
			"2 permits too many after a release in Java", "remove the oldest grants of 2 permits", "3", []int64{2, 3, 2},
		},
		{
			"released in Java, pages of them", 1000, "1000", ones(700),
			"700 permits too many after a release in Java", "remove the oldest grants of 700 permits", "1000", nil,
		},
		{
			"released in Java, pages behind expired ones", 1000, "600",
			append(slices.Repeat([][2]int64{{70, 1}}, 300), ones(600)...),
			"500 permits too many after a release in Java", "remove the oldest grants of 500 permits", "600",
			slices.Repeat([]int64{1}, 400),
		},
		{
			"the rate was lowered", 10, "90", [][2]int64{{9, 10}},
			"the rate was lowered: 90 free and 10 in grants, at a rate of 10", "set the value to 0", "0", []int64{10},
		},
		{
			"the rate was lowered below what is taken", 10, "60", [][2]int64{{9, 40}},
			"the rate was lowered", "set the value to -30", "-30", []int64{40},
		},
		{
			"released in Java, before some grants have expired", 10, "8", [][2]int64{{70, 5}, {9, 4}},
			"7 permits too many after a release in Java", "remove the oldest grants of 7 permits", "8", []int64{2},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.TB = t
			s.run("FLUSHALL")
			drifted(s, test.rate, test.value, test.grants...)
			r := tool("audit", "--redis", s.url())
			require.Equal(t, exitDenied, r.code)
			require.Contains(t, r.out, test.says)
			require.Contains(t, r.out, "--fix would "+test.repair)
			r = tool("audit", "--fix", "--yes", "--redis", s.url())
			require.Contains(t, r.out, "repaired: ")
			require.Equal(t, test.stored, s.text("GET", "{a}:value"))
			members, err := s.words("ZRANGE", "{a}:permits", "0", "-1").AsStrSlice()
			require.NoError(t, err)
			var left []int64
			for _, member := range members {
				n, layout := inspect.Decode(member)
				require.Equal(t, inspect.ByteLayout, layout)
				left = append(left, n)
			}
			require.Equal(t, test.left, left)
			require.NotContains(t, tool("audit", "--redis", s.url()).out, "problem  value", "one repair is enough")
		})
	}
}

// A caller takes a permit between two pages of a repair: the first page stays repaired.
func TestAudit_DriftThatChangesBetweenPages_StopsThere(t *testing.T) {
	s := startRedis(t)
	drifted(s, 1000, "1000", ones(700)...)
	findings := audited(t, s.reader(), find(t, s.reader()))
	require.Len(t, findings, 1)
	scripts := 0
	reader := s.reader()
	reader.Redis.Client = interrupted{s.Client, func(command string) {
		if command != "EVALSHA" {
			return
		}
		if scripts++; scripts == 2 {
			_, err := rratelimiter.New(s.Client).Limiter("a").TryAcquire(context.Background(), 1)
			require.NoError(t, err)
		}
	}}
	require.NoError(t, findings[0].Fix(context.Background(), reader))
	require.Equal(t, audit.Partly, findings[0].Result)
	require.Equal(t, 2, scripts)
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

// No repair is made without a word, whatever it changes.
func TestAuditFix_WithoutATerminal_ChangesNothing(t *testing.T) {
	s := startRedis(t)
	drifted(s, 10, "5", [2]int64{9, 1})
	before := s.text("DEBUG", "DIGEST")
	r := tool("audit", "--fix", "--redis", s.url())
	require.Equal(t, exitDenied, r.code)
	require.Contains(t, r.out, "unchanged (use --yes): set the value to 9")
	require.Contains(t, r.out, "1 problem")
	require.Equal(t, before, s.text("DEBUG", "DIGEST"))
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
