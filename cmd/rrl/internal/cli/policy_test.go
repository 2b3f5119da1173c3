package cli

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/connect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/policy/policytest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
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

// TestInFlight_EachCommand_ShowsWhatIsHeld: more grants than a page, also of leases that have ended.
func TestInFlight_EachCommand_ShowsWhatIsHeld(t *testing.T) {
	m := startMemory(t)
	client := rratelimiter.New(m.Client, rratelimiter.WithClock(m.now))
	take := func(lease time.Duration, grants int) {
		l := limit.New(client, "model", limit.InFlight{Permits: 1000, Lease: lease})
		for range grants {
			require.True(t, redistest.Result(t, l.TryAcquire, 1))
		}
	}
	const flag = " --policy in_flight:1000,lease=1m"
	assert.Contains(t, m.says("rrl show model"+flag), "there is no limiter")
	take(10*time.Second, 300)
	take(time.Minute, 300)
	m.pass(20 * time.Second)
	take(time.Minute, 1)
	assert.Equal(t, strings.Join([]string{
		"model", "  kind        package limit, in_flight", "  held        301 of 1000",
		"  leases      the first ends in 40s, the last in 1m", "  holder      1 permit for 20s, its lease ends in 40s",
		"  holder      1 permit for 20s, its lease ends in 40s", "  holder      1 permit for 20s, its lease ends in 40s",
		"  holder      1 permit for 20s, its lease ends in 40s", "  holder      1 permit for 20s, its lease ends in 40s",
		"  expires     in 2m", "  wrong       nothing", "",
	}, "\n"), m.says("rrl show model"+flag))
	assert.Contains(t, m.says("rrl show model"), "held        301, the limit is in the program")
	assert.Contains(t, m.says("rrl ls"), "model  in_flight  -     301    -     -        in 2m")
	assert.Contains(t, m.says("rrl watch model --count 1"+flag), `model "in_flight" taken=301 limit=1000`)
	assert.Equal(t, "1 limiter, 0 problems\n", m.says("rrl audit"))
	assert.Contains(t, m.says("rrl try model"+flag+" --policy fixed_window:9/1h"), "granted: 1 of model")
	assert.Contains(t, m.says("rrl show model"), "held        301,", "try returns its place")
	assert.Equal(t, "reset: model in_flight, 301 permits\n", m.says("rrl reset model --yes"+flag))
	assert.Equal(t, []string{"{model}:window:3600000"}, m.server.Keys())
	m.says("rrl reset model --yes")
	assert.Empty(t, m.server.Keys())
	renewed := fmt.Sprintf("%sxxxxxxxx 0 2 15000", strconv.FormatInt(m.now().Add(-time.Hour).UnixMilli(), 36))
	end := float64(m.now().Add(12 * time.Second).UnixMilli())
	for member, score := range map[string]float64{"clock": -1 - end + 15000, "held": -2, renewed: end} {
		require.NoError(t, redistest.Err(m.server.ZAdd("{model}:inflight", score, member)))
	}
	assert.Contains(t, m.says("rrl show model"), "  holder      2 permits for 1h, its lease ends in 12s, renewed\n")
	assert.Contains(t, m.says("rrl show model -o json"), `"places":[{"age_ms":3600000,"ends_ms":12000,"permits":2,"renewed":true}]`)
	m.says("rrl reset model --yes")
	require.NoError(t, redistest.Err(m.server.ZAdd("{model}:inflight", 1, "other")))
	assert.Contains(t, m.says("rrl audit"), `"{model}:inflight" holds "other 1 ", which package limit does not write`)
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
	require.Contains(t, s.ends(exitDenied, "audit").out, "and 3 keys of policies of a newer version of rrl")
	require.Contains(t, s.on("ls", "-o", "json"), `"newer":3`)
	require.Contains(t, tool("audit", "-o", "json", "--redis", s.url()).out, `"newer":3`)
}

// inMemory is a Redis in memory, on a clock that goes by hand.
type inMemory struct {
	*testing.T
	server *miniredis.Miniredis
	rueidis.Client
	time time.Time
}

func startMemory(t *testing.T) *inMemory {
	m := &inMemory{T: t, server: miniredis.RunT(t), time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	m.server.SetTime(m.time)
	var err error
	m.Client, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{m.server.Addr()},
		ForceSingleClient: true, DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m
}

func (m *inMemory) now() time.Time { return m.time }

func (m *inMemory) pass(d time.Duration) {
	m.time = m.time.Add(d)
	m.server.SetTime(m.time)
	m.server.FastForward(d)
}

// read reads the limiters of a name.
func (m *inMemory) read(name string) *inspect.Found {
	reader := &inspect.Reader{Redis: &connect.Redis{Client: m.Client, Where: "memory"}, Now: m.now}
	found, err := reader.Of(context.Background(), name, inspect.Search{Pages: 10})
	require.NoError(m, err)
	return found
}

// TestFree_RandomCalls_IsTheLibrarys: the free permits of a Redisson limiter after random calls,
// releases and rate changes.
func TestFree_RandomCalls_IsTheLibrarys(t *testing.T) {
	for seed := range uint64(redistest.Deep(2, 5)) {
		m := startMemory(t)
		random := rand.New(rand.NewPCG(1, seed))
		ctx := context.Background()
		l := rratelimiter.New(m.Client, rratelimiter.WithClock(m.now)).Limiter("x")
		rate := rratelimiter.Rate{Permits: 20, Interval: time.Second}
		require.NoError(t, l.SetRate(ctx, rate))
		for step := range 60 {
			switch n := random.IntN(12); {
			case n < 8:
				require.NoError(t, redistest.Err(l.TryAcquire(ctx, 1+random.Int64N(4))))
			case n == 8:
				require.NoError(t, l.Release(ctx, random.Int64N(5)))
			case n == 9:
				rate.Permits = 10 + random.Int64N(20)
				require.NoError(t, l.SetRate(ctx, rate, rratelimiter.KeepState()))
			case n == 10:
				m.server.Del("{x}:value")
			case n == 11:
				m.pass(time.Duration(random.IntN(1500)) * time.Millisecond)
			}
			m.pass(time.Duration(random.IntN(80)) * time.Millisecond)
			want, err := l.AvailablePermits(ctx)
			require.NoError(t, err)
			found := m.read("x")
			require.Equal(t, want, found.Redisson[0].Pairs[0].Free, "seed %d, step %d", seed, step)
		}
	}
}

// TestTaken_RandomCalls_IsThePolicys: the taken permits of a policy, without its limit.
func TestTaken_RandomCalls_IsThePolicys(t *testing.T) {
	for _, text := range []string{
		"fixed_window:20/1s", "fixed_window:20/1s,aligned", "sliding_window:20/1s", "sliding_window:20/1s,cells=4",
		"sliding_log:20/1s", "token_bucket:20/1s", "leaky_bucket:20/1s,capacity=30",
		"calendar:500/day", "calendar:500/week,in=Asia/Tokyo", "calendar:500/month,in=UTC", "calendar:500/year",
		"smooth:20/1s", "in_flight:20,lease=1s", "in_flight:2000,lease=1m",
	} {
		given, err := names.ParsePolicy(text)
		require.NoError(t, err)
		about := 0.0
		if given.Stored.Refill == policy.Evenly {
			about = 1 // its refill is known only from the expiry
		}
		m := startMemory(t)
		random := rand.New(rand.NewPCG(2, 0))
		l := limit.New(rratelimiter.New(m.Client, rratelimiter.WithClock(m.now)), "x", given.Policy)
		for step := range redistest.Deep(20, 80) {
			if _, err := l.TryAcquire(t.Context(), 1+random.Int64N(4)); err != nil {
				require.ErrorIs(t, err, rratelimiter.ErrPermitsExceedRate)
			}
			if step%3 == 2 && !given.Stored.Held() { // which adds a field to the text of a bucket
				require.NoError(t, l.Release(t.Context(), 1))
			}
			m.pass(time.Duration(random.IntN(200)) * time.Millisecond)
			seen := redistest.Peek(t, l)
			taken := int64(0)
			if found := m.read("x"); len(found.Policies) > 0 {
				require.Empty(t, found.Policies[0].Wrong)
				require.Equal(t, given.Stored, found.Policies[0].Stored)
				taken = found.Policies[0].Taken
			}
			if !given.Stored.OnCredit() {
				require.InDelta(t, seen[0].Limit-seen[0].Remaining, taken, about, "%s, step %d", text, step)
			}
		}
	}
}
