// Package differences_test tests intended differences between this library and Redisson 4.7.0 that
// the model of package sequences has not. They are in errors, in time, and in what is sent. Each test
// is a row of the tables in docs/compatibility.md.
package differences_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
	"github.com/rratelimiter/rratelimiter/integration/tools/suite"
	"github.com/rratelimiter/rratelimiter/internal/golden"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

const redissonVersion = "4.7.0"

// All tests share a server, a Redisson and a Client. They run one after another, since some count
// the commands of the server.
var (
	server  *servers.Server
	version servers.Version
	redis   rueidis.Client
	java    *oracle.Redisson
	here    *rratelimiter.Client
)

func TestMain(m *testing.M) {
	suite.Main(m, func(t testing.TB) {
		server = servers.Single(t)
		redis = server.Client(t)
		version = servers.VersionOf(t, redis)
		here = rratelimiter.New(redis)
		java = oracle.Start(t, redissonVersion, oracle.Single(server.Addr()))
		// The server has the scripts of both libraries from here on, since tests count script calls. Before
		// Redis 6.2, a call of one that it does not have counts as well.
		require.NoError(t, here.Limiter("warm").SetRate(t.Context(), perMinute(10)))
		take(t, java.Limiter("warm"), 1)
		first := rratelimiter.New(redis) // whose first call counts drift
		take(t, first.Limiter("warm"), 1)
		require.NoError(t, first.Flush(t.Context()))
	})
}

// ask runs one command on the server.
func ask(t *testing.T, args ...string) rueidis.RedisMessage {
	t.Helper()
	message, err := redis.Do(t.Context(), redis.B().Arbitrary(args...).Build()).ToMessage()
	require.NoError(t, err, args)
	return message
}

func number(t *testing.T, args ...string) int64 {
	t.Helper()
	message := ask(t, args...)
	n, err := message.AsInt64()
	require.NoError(t, err, args)
	return n
}

func text(t *testing.T, args ...string) string {
	t.Helper()
	message := ask(t, args...)
	s, err := message.ToString()
	require.NoError(t, err, args)
	return s
}

func valueKey(name string) string   { return "{" + name + "}:value" }
func permitsKey(name string) string { return "{" + name + "}:permits" }

// value returns the number of free permits in Redis.
func value(t *testing.T, name string) int64 {
	t.Helper()
	return number(t, "GET", valueKey(name))
}

// grants returns the members of a permits set, the oldest first.
func grants(t *testing.T, key string) []rueidis.ZScore {
	t.Helper()
	message := ask(t, "ZRANGE", key, "0", "-1", "WITHSCORES")
	all, err := message.AsZScores()
	require.NoError(t, err)
	return all
}

// counts returns the permits of the grants in a permits set.
func counts(t *testing.T, key string) []int64 {
	t.Helper()
	all := []int64{}
	for _, g := range grants(t, key) {
		all = append(all, state.Decode(g.Member).Permits)
	}
	return all
}

// scores returns the times of the grants in a permits set, Unix milliseconds.
func scores(t *testing.T, key string) []int64 {
	t.Helper()
	all := []int64{}
	for _, g := range grants(t, key) {
		all = append(all, int64(g.Score))
	}
	return all
}

// age makes every grant of a permits set older, as if that time had passed.
func age(t *testing.T, key string, by time.Duration) { ageOldest(t, key, math.MaxInt, by) }

// ageOldest is age for the n oldest grants alone.
func ageOldest(t *testing.T, key string, n int, by time.Duration) {
	t.Helper()
	all := grants(t, key)
	require.NotEmpty(t, all, "no grant to age")
	for _, g := range all[:min(n, len(all))] {
		ask(t, "ZADD", key, strconv.FormatFloat(g.Score-float64(by.Milliseconds()), 'f', 0, 64), g.Member)
	}
}

// scripts returns the number of script calls that do makes.
func scripts(t *testing.T, do func()) int64 {
	t.Helper()
	require.NoError(t, here.Flush(t.Context())) // the counts of drift that calls before have begun
	succeeded := func() int64 { return server.Calls(t, "eval", "evalsha") - server.Failed(t, "eval", "evalsha") }
	before := succeeded()
	do()
	return succeeded() - before
}

// perMinute returns an Overall rate. Its window is longer than a test, unless age moves the grants.
func perMinute(permits int64) rratelimiter.Rate {
	return rratelimiter.Rate{Permits: permits, Interval: time.Minute}
}

// inJava returns a rate for Redisson.
func inJava(rate rratelimiter.Rate) oracle.Rate {
	kind := oracle.Overall
	if rate.Type == rratelimiter.PerClient {
		kind = oracle.PerClient
	}
	return oracle.Rate{Type: kind, Permits: rate.Permits, Interval: rate.Interval, KeepAlive: rate.KeepAlive}
}

// pair empties the server and returns two limiters of a rate, one for Redisson and one for this
// library. Their names are new, so that no count of drift is due.
func pair(t *testing.T, rate rratelimiter.Rate) (theirs *oracle.Limiter, ours *rratelimiter.Limiter) {
	t.Helper()
	ask(t, "FLUSHALL")
	name := fmt.Sprint(t.Name(), time.Now().UnixNano())
	theirs, ours = java.Limiter(name+" in Java"), here.Limiter(name+" here")
	require.NoError(t, theirs.SetRate(t.Context(), inJava(rate)))
	require.NoError(t, ours.SetRate(t.Context(), rate))
	return theirs, ours
}

// acquirer is a limiter of either library.
type acquirer interface {
	TryAcquire(ctx context.Context, permits int64) (bool, error)
}

func take(t testing.TB, l acquirer, permits int64) {
	t.Helper()
	requireTrue(t, "%d permits were denied", permits)(l.TryAcquire(t.Context(), permits))
}

// takeInTurn takes permits, each grant a second older than the next. Redis orders grants of the
// same millisecond by their random bytes.
func takeInTurn(t *testing.T, l acquirer, key string, permits ...int64) {
	t.Helper()
	for _, n := range permits {
		take(t, l, n)
		age(t, key, time.Second)
	}
}

// requireTrue returns a function that requires the results true and no error.
func requireTrue(t testing.TB, message ...any) func(bool, error) {
	t.Helper()
	return func(ok bool, err error) {
		t.Helper()
		require.NoError(t, err)
		require.True(t, ok, message...)
	}
}

func deny(t *testing.T, l acquirer, permits int64) {
	t.Helper()
	granted, err := l.TryAcquire(t.Context(), permits)
	require.NoError(t, err)
	require.False(t, granted, "%d permits were granted", permits)
}

func requireFree(t *testing.T, l interface {
	AvailablePermits(context.Context) (int64, error)
}, want int64) {
	t.Helper()
	require.Equal(t, want, redistest.Available(t, l))
}

// The tables of docs/compatibility.md name every test of this folder and of three other files. A refund is no call
// of Redisson, so its test is one of the root module.
func TestCompatibilityPage_Tables_NameEveryTest(t *testing.T) {
	page := golden.Text(t, filepath.Join("..", "..", "..", "docs", "compatibility.md"))
	var named []string
	for _, row := range regexp.MustCompile(`(?m)^\|.*\|$`).FindAllString(page, -1) {
		for _, name := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(row, -1) {
			if !slices.Contains(named, name[1]) {
				named = append(named, name[1])
			}
		}
	}

	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, other := range []string{"sequences/sequences_test.go", "sequences/drift_test.go", "cluster/crossslot_test.go"} {
		files = append(files, filepath.Join("..", other))
	}
	var written []string
	for _, file := range files {
		source := golden.Text(t, file)
		for _, name := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`).FindAllStringSubmatch(source, -1) {
			if name[1] != t.Name() {
				written = append(written, name[1])
			}
		}
	}
	require.ElementsMatch(t, append(written, "TestRefund_ReleasesOfRedisson_FreeNoOtherPermits"), named)
}
