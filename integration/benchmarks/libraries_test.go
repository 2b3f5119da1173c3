package benchmarks

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

// library is a limiter in one of its settings. A plus in the key separates the setting from the name.
type library struct {
	key      string
	recorded bool // Redisson's layout, which records each grant
	open     func(b testing.TB, redis *server, l load) session
}

const emptyScript = "empty-script" // a script that returns 1: less than a limiter on Redis must do

// libraries lists all libraries: this one, Redisson, the others in their default and in their faster
// settings, and the baselines.
var libraries = slices.Concat(ourLibraries, policyLibraries, redissonLibraries, peers, middlewares, []library{
	{key: emptyScript, open: openEmpty},
	{key: "x-time-rate", open: openXTime},
})

func find(b testing.TB, key string) library {
	i := slices.IndexFunc(libraries, func(l library) bool { return l.key == key })
	require.GreaterOrEqual(b, i, 0, key)
	return libraries[i]
}

// settings returns the keys of all peers with these names, in all their settings.
func settings(of ...string) (keys []string) {
	for _, l := range peers {
		if name, _, _ := strings.Cut(l.key, "+"); slices.Contains(of, name) {
			keys = append(keys, l.key)
		}
	}
	return keys
}

// dial opens a rueidis client with its default options, the same for every library that uses
// rueidis.
func dial(b testing.TB, addr string) rueidis.Client {
	return dialWith(b, rueidis.ClientOption{InitAddress: []string{addr}})
}

func dialWith(b testing.TB, option rueidis.ClientOption) rueidis.Client {
	redis, err := rueidis.NewClient(option)
	require.NoError(b, err)
	b.Cleanup(redis.Close)
	return redis
}

// openEmpty opens the baseline of all libraries that run one script per decision. Its answer is the
// one that the load expects.
func openEmpty(b testing.TB, _ *server, l load) session {
	redis, empty := dial(b, l.addr), rueidis.NewLuaScript("return 1")
	return session{take: func(ctx context.Context, _, name int, _ int64) (bool, error) {
		_, err := empty.Exec(ctx, redis, l.names[name:name+1], nil).AsInt64()
		return !l.denied, err
	}}
}

// openXTime opens the baseline in the process, which shares nothing with other processes.
func openXTime(_ testing.TB, _ *server, l load) session {
	limiters := make([]*rate.Limiter, len(l.names))
	for i := range limiters {
		limiters[i] = rate.NewLimiter(rate.Limit(float64(l.limit.permits)/l.limit.interval.Seconds()), int(l.limit.permits))
	}
	return session{take: func(_ context.Context, _, name int, permits int64) (bool, error) {
		return limiters[name].AllowN(time.Now(), int(permits)), nil
	}}
}
