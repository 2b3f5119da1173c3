package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy/policytest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// A policy that only registers itself works in each command, or is refused with a reason.
func TestPolicies_NewPolicy_WorksOrIsRefused(t *testing.T) {
	policytest.Register(t)
	m := startMemory(t)
	assert.Equal(t, "granted: 2 of a, 1 left of 3\n", m.says("rrl try a -n 2 --policy novel:3/1h"))
	m.pass(time.Minute)
	assert.Equal(t, strings.Join([]string{
		"NAME  KIND      RATE  TAKEN  FREE  CLIENTS  EXPIRES", "a     novel/1h  -     2      -     -        in 59m", "",
	}, "\n"), m.says("rrl ls"))
	assert.Contains(t, m.says("rrl ls -o json"), `"kind":"novel/1h","interval_ms":3600000,"taken":2`)
	for line, taken := range map[string]string{
		"rrl show a":                            "taken       2, the limit is in the program",
		"rrl show a --policy novel:3/1h":        "taken       2 of 3",
		"rrl show a --policy fixed_window:3/1h": "there is no limiter",
	} {
		assert.Contains(t, m.says(line), taken, line)
	}
	assert.Contains(t, m.says("rrl watch a --count 1 --policy novel:3/1h"), `a "novel/1h" taken=2 limit=3`)
	assert.Equal(t, "1 limiter, 0 problems\n", m.says("rrl audit"))
	assert.Contains(t, m.says("rrl set a novel:3/1h"), `"novel:3/1h" is no rate`)
	assert.Equal(t, "a: 5/1h OVERALL, new\n", m.says("rrl set a 5/1h"))
	m.server.Del("a")
	m.server.Del("{a}:value")

	persisted, err := m.Do(context.Background(), m.B().Persist().Key("{a}:novel:3600000").Build()).AsBool()
	require.NoError(t, err)
	require.True(t, persisted)
	assert.Contains(t, m.says("rrl audit --fix"), "let it expire in 2h, by when nothing is taken any more")
	assert.Equal(t, 2*time.Hour, m.server.TTL("{a}:novel:3600000"))
	assert.Equal(t, "reset: a novel/1h, 2 permits\n", m.says("rrl reset a --yes"))
	assert.Empty(t, m.server.Keys())
	require.NoError(t, m.server.Set("{a}:novel:3600000", "x"))
	assert.Contains(t, m.says("rrl audit"), `"{a}:novel:3600000" holds "x", which package limit does not write`)

	refused := m.says("rrl show a --policy incomplete:3/1h")
	assert.Contains(t, refused, "incomplete describes no local share; the notation is:")
	assert.Contains(t, refused, "\nnovel:100/1m\npause:most=1h\n")
}

// A refund adds a field to the text of a bucket.
func TestShow_Refunds_AreRead(t *testing.T) {
	for _, p := range []limit.Policy{
		limit.TokenBucket{Capacity: 4, Refill: 4, Interval: time.Minute},
		limit.LeakyBucket{Capacity: 4, Leak: 4, Interval: time.Minute},
		limit.Smooth{Permits: 4, Interval: time.Minute},
	} {
		m := startMemory(t)
		l := limit.New(rratelimiter.New(m.Client, rratelimiter.WithClock(m.now)), "a", p)
		for range 3 {
			_, err := l.TryAcquire(t.Context(), 3)
			require.NoError(t, err)
			require.NoError(t, l.Release(t.Context(), 1))
			assert.NotContains(t, m.says("rrl show a"), "does not write", "%#v", p)
			assert.Equal(t, "1 limiter, 0 problems\n", m.says("rrl audit"), "%#v", p)
		}
	}
}

// TestUnknownPolicies_AreCounted: keys whose content is a state of package limit, of a policy that this
// version does not know. Keys of other programs are not.
func TestUnknownPolicies_AreCounted(t *testing.T) {
	s := startRedis(t)
	s.words("SET", "{u}:hourly:60000", "epochs 1767225600000 3")
	s.words("SET", "{t}::novelty", "epochs 5")
	s.words("RPUSH", "{u}:diary:60000", "epochs 1767225600000 0 3 3")
	s.words("SET", "{u}:orders:7", "hello")
	s.words("SET", "{u}:profile", "epochal")
	s.run("HSET {u}:fields a 1")
	require.Equal(t, "no limiters\nand 3 keys of policies of a newer version of rrl\n", s.on("ls"))
	require.Equal(t, "no limiters\nand 2 keys of policies of a newer version of rrl\n", s.on("ls", "u"))
	require.Contains(t, s.on("show", "u"), "and         2 keys of policies of a newer version of rrl")
	require.Contains(t, s.on("show", "{t}"), "and         1 key of policies of a newer version of rrl")
	r := tool("audit", "--redis", s.url())
	require.Equal(t, exitDenied, r.code, "it has not checked them")
	require.Contains(t, r.out, "and 3 keys of policies of a newer version of rrl")
	require.Contains(t, s.on("ls", "-o", "json"), `"newer":3`)
	require.Contains(t, tool("audit", "-o", "json", "--redis", s.url()).out, `"newer":3`)
}
