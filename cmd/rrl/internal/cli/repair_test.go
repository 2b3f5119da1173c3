package cli

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/audit"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/connect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
)

// TestRepair_ClockOfThisHostIsAhead_TakenPermitsStayTaken: the server's clock decides.
func TestRepair_ClockOfThisHostIsAhead_TakenPermitsStayTaken(t *testing.T) {
	s := startRedis(t)
	s.run("HSET a rate 10 interval 3600000 type 1", "SET {a}:value:"+client1+" 0")
	s.words("ZADD", "{a}:permits:"+client1, fmt.Sprint(time.Now().UnixMilli()), grant("12345678", 10))
	ahead := func() time.Time { return time.Now().Add(2 * time.Hour) }
	require.NotContains(t, toolAt(ahead, "audit", "--fix", "--redis", s.url()).out, "repaired")
	holds(t, s, "GET {a}:value:"+client1+"=0")
}

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

// TestAudit_Values_AreParsedAsByTheLibrary: a text that the library rejects is reported, even if it
// looks like a number.
func TestAudit_Values_AreParsedAsByTheLibrary(t *testing.T) {
	s := startRedis(t)
	for _, value := range []string{"9223372036854775807", "100000000000000000", "-99999999999999999", "-0", "007", "+7"} {
		s.run("FLUSHALL")
		put(s, "a", value, grant("12345678", 1))
		_, err := rratelimiter.New(s.Client).Limiter("a").TryAcquire(context.Background(), 1)
		var state *rratelimiter.StateError
		require.ErrorAs(t, err, &state, value)
		require.Contains(t, tool("audit", "--redis", s.url()).out, "is not a number", value)
		require.Contains(t, s.corrupt("a"), "is not a number", value)
	}
}

// TestShow_IntervalZero_AllPermitsReturn: the libraries accept such an interval.
func TestShow_IntervalZero_AllPermitsReturn(t *testing.T) {
	s := startRedis(t)
	s.run("HSET a rate 10 interval 0 type 0")
	for range 2 {
		s.on("try", "a", "-n", "10")
		require.Contains(t, s.on("show", "a"), "wrong       nothing")
		require.Contains(t, s.on("audit"), "0 problems")
		require.Contains(t, s.on("watch", "a", "--count", "1"), "taken=0")
	}
}

func TestSet_KeyOfAnotherType_IsNotReplaced(t *testing.T) {
	s := startRedis(t)
	s.run("SET a text")
	require.NotContains(t, s.corrupt("a"), "rrl set")
	require.Contains(t, s.corrupt("a"), "choose another name")
	r := tool("set", "a", "5/1h", "--yes", "--redis", s.url())
	require.Equal(t, exitError, r.code)
	require.NotContains(t, tool("set", "a", "5/1h", "--redis", s.url()).err, "--yes", "it would not do that either")
	holds(t, s, "GET a=text")
}
