package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOrphan_InUse_IsNotDeleted: state of limiters that the audit skips, or that were created
// meanwhile.
func TestOrphan_InUse_IsNotDeleted(t *testing.T) {
	t.Run("the pattern is not its own name", func(t *testing.T) {
		s := startRedis(t)
		s.run("HSET {a} rate 10 interval 3600000 type 0", "SET {a}:value 9")
		s.words("ZADD", "{a}:permits", fmt.Sprint(time.Now().UnixMilli()), grant("12345678", 1))
		require.Contains(t, s.on("audit", "a"), "0 problems")
	})
	t.Run("it came meanwhile", func(t *testing.T) {
		s := startRedis(t)
		s.run("SET {a}:value 9")
		s.words("ZADD", "{a}:permits", fmt.Sprint(time.Now().UnixMilli()), grant("12345678", 1))
		reader := s.reader()
		found := find(t, reader)
		require.Len(t, found.Orphans, 1)
		s.run("HSET a rate 10 interval 3600000 type 0")
		require.Empty(t, audited(t, reader, found))
	})
	t.Run("two names with the same keys, of two types", func(t *testing.T) {
		s := startRedis(t)
		s.run("HSET a rate 10 interval 3600000 type 1", "HSET {a} rate 10 interval 3600000 type 0", "SET {a}:value 9",
			"SET {a}:value:"+client1+" 6")
		s.words("ZADD", "{a}:permits", fmt.Sprint(time.Now().UnixMilli()), grant("12345678", 1))
		s.words("ZADD", "{a}:permits:"+client1, fmt.Sprint(time.Now().UnixMilli()), grant("12345678", 4))
		require.NotContains(t, tool("audit", "--redis", s.url()).out, "orphan")
		require.Contains(t, s.on("ls", "a"), "4      6     1")
	})
	t.Run("the empty name", func(t *testing.T) {
		s := startRedis(t)
		s.words("HSET", "", "rate", "10", "interval", "3600000", "type", "0")
		s.run("SET {}:value 6")
		s.words("ZADD", "{}:permits", fmt.Sprint(time.Now().UnixMilli()), grant("12345678", 4))
		r := tool("audit", "--fix", "--yes", "--redis", s.url())
		require.NotContains(t, r.out, "orphan")
		holds(t, s, "GET {}:value=6")
	})
	t.Run("keys of other programs", func(t *testing.T) {
		s := startRedis(t)
		s.run("ZADD {team}:permits 1 user-123 2 user-124", "ZADD {dept}:permits 1 "+strings.Repeat("x", 8),
			"SET {dept}:value 5")
		s.words("ZADD", "{old}:permits", "17", grant("12345678", 4)) // a score that is no time
		before := s.text("DEBUG", "DIGEST")
		require.Contains(t, s.on("audit", "--fix", "--yes"), "0 problems")
		require.Equal(t, before, s.text("DEBUG", "DIGEST"))
	})
}
