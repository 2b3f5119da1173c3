package cli

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/audit"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/connect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
)

func (s *server) reader() *inspect.Reader {
	return &inspect.Reader{Redis: &connect.Redis{Client: s.Client, Where: s.addr}, Now: time.Now}
}

// find finds all limiters.
func find(t testing.TB, reader *inspect.Reader) *inspect.Found {
	t.Helper()
	found, err := reader.Find(context.Background(), inspect.Search{Pages: 10})
	require.NoError(t, err)
	return found
}

// audited audits the limiters that were found.
func audited(t testing.TB, reader *inspect.Reader, found *inspect.Found) []*audit.Finding {
	t.Helper()
	findings, err := audit.Check(context.Background(), reader, found, 10)
	require.NoError(t, err)
	return findings
}

// TestAudit_LimiterChangesMeanwhile_IsNoFinding: between the search and the audit.
func TestAudit_LimiterChangesMeanwhile_IsNoFinding(t *testing.T) {
	s := startRedis(t)
	put(s, "a", "6", grant("12345678", 4))
	put(s, "b", "9", grant("12345678", 1))
	s.run("DEL b")
	reader := s.reader()
	found := find(t, reader)
	require.Len(t, found.Orphans, 1)
	s.on("set", "a", "20/1h")
	s.run("HSET b rate 10 interval 3600000 type 0")
	require.Empty(t, audited(t, reader, found))
}

// TestAudit_PairInUse_IsNoFinding: a value that changes during every read is not reported.
func TestAudit_PairInUse_IsNoFinding(t *testing.T) {
	s := startRedis(t)
	put(s, "a", "5", grant("12345678", 1))
	reader := s.reader()
	found := find(t, reader)
	reader.Redis.Client = interrupted{s.Client, func(string) { s.run("DECR {a}:value") }}
	require.Empty(t, audited(t, reader, found))
}

// TestRefresh_LimiterChanged_FindsWhatIsLeft: reset deletes no pair that has expired, and watch shows no
// empty client.
func TestRefresh_LimiterChanged_FindsWhatIsLeft(t *testing.T) {
	s := startRedis(t)
	reader := s.reader()
	refreshed := func(change string) *inspect.Found {
		found, err := reader.Of(context.Background(), "a", inspect.Search{Pages: 10})
		require.NoError(t, err)
		s.run(change)
		require.NoError(t, reader.Refresh(context.Background(), "a", found, 10))
		return found
	}
	s.run("HSET a rate 10 interval 3600000 type 1", "SET {a}:value:"+client1+" 10")
	require.Empty(t, audited(t, reader, refreshed("DEL {a}:value:"+client1)))
	put(s, "a", "6", grant("12345678", 4))
	require.Empty(t, refreshed("HSET a type 1").Redisson[0].Pairs)
}

// TestRepair_OneFails_ReportsEach: the repairs that were made and those that are left.
func TestRepair_OneFails_ReportsEach(t *testing.T) {
	s := startRedis(t)
	put(s, "a", "5", grant("12345678", 1))
	put(s, "b", "9", grant("12345678", 1))
	s.run("PEXPIRE {b}:permits 100000")
	put(s, "c", "5", grant("12345678", 1))
	s.run("ACL SETUSER smith on >secret ~* +@all -persist")
	r := tool("audit", "--fix", "--redis", "redis://smith:secret@"+s.addr)
	require.Equal(t, exitError, r.code)
	require.Contains(t, r.err, `"b"`)
	require.Contains(t, r.err, "denies this user")
	require.Contains(t, r.out, "repaired: count the permits", "what was done before is not reported")
	require.Contains(t, r.out, "failed: take its expiry off")
	holds(t, s, "GET {a}:value=9")
	holds(t, s, "GET {c}:value=9")
}

// TestAudit_Interrupted_ReportsRepairs: that were made before.
func TestAudit_Interrupted_ReportsRepairs(t *testing.T) {
	s := startRedis(t)
	put(s, "a", "5", grant("12345678", 1))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	reader := s.reader()
	a := &app{out: io.Discard, err: io.Discard, redis: reader.Redis, reader: reader}
	findings := audited(t, reader, find(t, reader))
	require.ErrorIs(t, a.fix(ctx, findings), context.Canceled)
	require.Equal(t, audit.Failed, findings[0].Result)
	holds(t, s, "GET {a}:value=5")
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

// TestRepair_ClockOfThisHostIsAhead_TakenPermitsStayTaken: the server's clock decides.
func TestRepair_ClockOfThisHostIsAhead_TakenPermitsStayTaken(t *testing.T) {
	s := startRedis(t)
	s.run("HSET a rate 10 interval 3600000 type 1", "SET {a}:value:"+client1+" 0")
	s.words("ZADD", "{a}:permits:"+client1, fmt.Sprint(time.Now().UnixMilli()), grant("12345678", 10))
	ahead := func() time.Time { return time.Now().Add(2 * time.Hour) }
	require.NotContains(t, toolAt(ahead, "audit", "--fix", "--redis", s.url()).out, "repaired")
	holds(t, s, "GET {a}:value:"+client1+"=0")
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

// TestRepair_LimiterChanged_ChangesNothing: the limiter changes between the audit and the repair.
func TestRepair_LimiterChanged_ChangesNothing(t *testing.T) {
	s := startRedis(t)
	reader := s.reader()
	orphan := func(s *server) { s.run("SET {a}:value:" + client1 + " 3") }
	idle := func(s *server) { s.run("HSET a rate 10 interval 3600000 type 1", "SET {a}:value:"+client1+" 10") }
	left := func(s *server) {
		s.run("HSET a rate 10 interval 60000 type 1", "SET {a}:value:"+client1+" 0")
		at := fmt.Sprint(time.Now().Add(-30 * time.Minute).UnixMilli())
		s.words("ZADD", "{a}:permits:"+client1, at, grant("12345678", 10))
	}
	stays := func(s *server) { put(s, "a", "10"); s.run("PEXPIRE a 5000000") }
	dies := func(s *server) { put(s, "a", "10"); s.run("PEXPIRE {a}:value 5000000") }
	for _, test := range []struct {
		kind string
		make func(s *server)
		then string
	}{
		{audit.KindOrphan, orphan, "HSET a rate 10 interval 3600000 type 1"},
		{audit.KindOrphan, orphan, "HSET {a} rate 10 interval 3600000 type 1"},
		{audit.KindIdle, idle, fmt.Sprintf("ZADD {a}:permits:%s %d x1234567", client1, time.Now().UnixMilli())},
		{audit.KindIdle, left, "HSET a interval 3600000"},
		{audit.KindExpiry, stays, "PERSIST a"},
		{audit.KindExpiry, stays, "PEXPIRE {a}:value 7000000"},
		{audit.KindExpiry, dies, "PEXPIRE a 9000000"},
	} {
		s.run("FLUSHALL")
		test.make(s)
		findings := audited(t, reader, find(t, reader))
		require.Len(t, findings, 1)
		require.Equal(t, test.kind, findings[0].Kind)
		require.NotEmpty(t, findings[0].Repair)
		s.run(test.then)
		before := s.text("DEBUG", "DIGEST")
		require.NoError(t, findings[0].Fix(context.Background(), reader, 10))
		require.Equal(t, audit.Changed, findings[0].Result, test.then)
		require.Equal(t, before, s.text("DEBUG", "DIGEST"), test.then)
	}
}

// TestRepair_LimiterIsUsedAfterTheCheck_ChangesNothing: a client takes a permit between the check that
// precedes the repair and the repair.
func TestRepair_LimiterIsUsedAfterTheCheck_ChangesNothing(t *testing.T) {
	s := startRedis(t)
	s.run("HSET a rate 10 interval 3600000 type 1", "SET {a}:value:"+client1+" 10")
	reader := s.reader()
	findings := audited(t, reader, find(t, reader))
	require.Len(t, findings, 1)
	reader.Redis.Client = interrupted{s.Client, func(command string) {
		if command == "TIME" { // the last one of the check
			s.run("DECR {a}:value:" + client1)
		}
	}}
	require.NoError(t, findings[0].Fix(context.Background(), reader, 10))
	require.Equal(t, audit.Changed, findings[0].Result)
	holds(t, s, "GET {a}:value:"+client1+"=9")
}

// TestOrphan_KeysOfASkippedName_AreNone: the name is not in the pattern, or empty, or shares its keys.
func TestOrphan_KeysOfASkippedName_AreNone(t *testing.T) {
	s := startRedis(t)
	now := fmt.Sprint(time.Now().UnixMilli())
	s.run("HSET {a} rate 10 interval 3600000 type 0", "SET {a}:value 9", "SET {}:value 6")
	s.words("ZADD", "{a}:permits", now, grant("12345678", 1))
	s.words("HSET", "", "rate", "10", "interval", "3600000", "type", "0")
	s.words("ZADD", "{}:permits", now, grant("12345678", 4))
	require.Contains(t, s.on("audit", "a"), "0 problems")
	s.run("HSET a rate 10 interval 3600000 type 1", "SET {a}:value:"+client1+" 6")
	s.words("ZADD", "{a}:permits:"+client1, now, grant("12345678", 4))
	require.NotContains(t, tool("audit", "--fix", "--redis", s.url()).out, "orphan")
	holds(t, s, "GET {}:value=6")
	require.Contains(t, s.on("ls", "a"), "4      6     1")
}
