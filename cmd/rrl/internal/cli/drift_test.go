package cli

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

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
	s.run("HSET a rate 100000 interval 3600000 type 0", "SET {a}:value 1")
	s.words("EVAL", `for i = 1, 8193 do
		redis.call('ZADD', KEYS[1], ARGV[1] + i, '\8' .. string.format('%08d', i) .. '\1\0\0\0')
	end`, "1", "{a}:permits", fmt.Sprint(time.Now().Add(-time.Minute).UnixMilli()))
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
