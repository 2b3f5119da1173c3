package cli

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/audit"
)

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
