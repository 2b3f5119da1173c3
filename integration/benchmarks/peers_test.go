package benchmarks

import (
	"context"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	redigo "github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"
	"github.com/sethvargo/go-redisstore"
	"github.com/stretchr/testify/require"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
	"golang.org/x/time/rate"
)

// peers are the other libraries. They run with their default options, unless these would fail under
// the load. If their client can share round trips at the price of latency, each way to do so is a
// setting of its own.
var peers = []library{
	{key: "rueidislimiter", open: openRueidisLimiter(rueidis.ClientOption{})},
	{key: "rueidislimiter+pool", open: openRueidisLimiter(rueidis.ClientOption{DisableAutoPipelining: true})},
	{key: "rueidislimiter+flushdelay", open: openRueidisLimiter(rueidis.ClientOption{MaxFlushDelay: flushDelay})},
	{key: "redis_rate", open: openRedisRate(plain)},
	{key: "redis_rate+autopipeline", open: openRedisRate(onePipeline)},
	{key: "redis_rate+8pipelines", open: openRedisRate(manyAtOnce)},
	{key: "redis_rate+flushdelay", open: openRedisRate(withDelay)},
	{key: "throttled", open: openThrottled},
	{key: "go-redisstore", open: openRedisStore},
	{key: "ulule", open: openUlule(plain)},
	{key: "ulule+autopipeline", open: openUlule(onePipeline)},
	{key: "ulule+8pipelines", open: openUlule(manyAtOnce)},
	{key: "ulule+flushdelay", open: openUlule(withDelay)},
}

// flushDelay is how long a write waits for later ones, in clients of go-redis and of rueidis. It is the
// default of go-redis' pipelines with a delay. In rueidis, 256 callers use less CPU with it than with the
// 20 us of its documentation.
const flushDelay = 100 * time.Microsecond

// goRedis opens a client of go-redis.
type goRedis func(b testing.TB, l load) goredis.UniversalClient

// autoPipeliner is a client of a single server or of a cluster.
type autoPipeliner interface {
	goredis.UniversalClient
	AutoPipelineWithOptions(options *goredis.AutoPipelineOptions) (*goredis.AutoPipeliner, error)
}

// plain takes a connection of its pool for each call.
func plain(b testing.TB, l load) goredis.UniversalClient { return dialGoRedis(b, l) }

func dialGoRedis(b testing.TB, l load) autoPipeliner {
	var redis autoPipeliner = goredis.NewClient(&goredis.Options{Addr: l.addr})
	if l.cluster {
		redis = goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{l.addr}})
	}
	b.Cleanup(func() { _ = redis.Close() })
	return redis
}

// autoPipeline puts calls that are made at the same time into pipelines.
func autoPipeline(change func(*goredis.AutoPipelineOptions)) goRedis {
	return func(b testing.TB, l load) goredis.UniversalClient {
		options := goredis.DefaultBlockingAutoPipelineOptions()
		change(options)
		pipelines, err := dialGoRedis(b, l).AutoPipelineWithOptions(options)
		require.NoError(b, err)
		return pipelines
	}
}

// The ways of AutoPipeline: one pipeline after the other, which is the default; several at once;
// and one that waits for more calls.
var (
	onePipeline = autoPipeline(func(*goredis.AutoPipelineOptions) {})
	manyAtOnce  = autoPipeline(func(o *goredis.AutoPipelineOptions) { o.MaxConcurrentBatches, o.Unordered = 8, true })
	withDelay   = autoPipeline(func(o *goredis.AutoPipelineOptions) { o.MaxFlushDelay = flushDelay })
)

func openRedisRate(dial goRedis) func(b testing.TB, _ *server, l load) session {
	return func(b testing.TB, _ *server, l load) session {
		limiter := redis_rate.NewLimiter(dial(b, l))
		limit := redis_rate.Limit{Rate: int(l.limit.permits), Burst: int(l.limit.permits), Period: l.limit.interval}
		return session{take: func(ctx context.Context, _, name int, permits int64) (bool, error) {
			result, err := limiter.AllowN(ctx, l.names[name], limit, int(permits))
			return err == nil && result.Allowed > 0, err
		}}
	}
}

func openRueidisLimiter(option rueidis.ClientOption) func(b testing.TB, _ *server, l load) session {
	return func(b testing.TB, _ *server, l load) session {
		option.InitAddress = []string{l.addr}
		redis := dialWith(b, option)
		limiter, err := rueidislimiter.NewRateLimiter(rueidislimiter.RateLimiterOption{
			ClientBuilder: func(rueidis.ClientOption) (rueidis.Client, error) { return redis, nil },
			Limit:         int(l.limit.permits),
			Window:        l.limit.interval,
		})
		require.NoError(b, err)
		return session{take: func(ctx context.Context, _, name int, permits int64) (bool, error) {
			result, err := limiter.AllowN(ctx, l.names[name], permits)
			return result.Allowed, err
		}}
	}
}

func openThrottled(b testing.TB, _ *server, l load) session {
	store, err := goredisstore.NewCtx(plain(b, l), "throttled:")
	require.NoError(b, err)
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate:  throttled.PerDuration(int(l.limit.permits), l.limit.interval),
		MaxBurst: int(l.limit.permits) - 1,
	})
	require.NoError(b, err)
	// Of many callers that compare and swap at the same time one succeeds, and its default of 10
	// attempts ends in errors.
	limiter.SetMaxCASAttemptsLimit(math.MaxInt32)
	return session{take: func(ctx context.Context, _, name int, permits int64) (bool, error) {
		limited, _, err := limiter.RateLimitCtx(ctx, l.names[name], int(permits))
		return !limited, err
	}}
}

const redigoConnections = 100

// openRedisStore keeps idle connections and waits for a free one: by default the pool keeps none,
// and above 100 callers it fails.
func openRedisStore(b testing.TB, _ *server, l load) session {
	var dialer net.Dialer
	store, err := redisstore.NewWithPool(&redisstore.Config{Tokens: uint64(l.limit.permits), Interval: l.limit.interval},
		&redigo.Pool{
			MaxActive: redigoConnections,
			MaxIdle:   redigoConnections,
			Wait:      true,
			DialContext: func(ctx context.Context) (redigo.Conn, error) {
				conn, err := dialer.DialContext(ctx, "tcp", l.addr)
				if err != nil {
					return nil, err
				}
				return redigo.NewConn(conn, 0, 0), nil
			},
		})
	require.NoError(b, err)
	b.Cleanup(func() { _ = store.Close(context.Background()) })
	return session{take: func(ctx context.Context, _, name int, _ int64) (bool, error) {
		_, _, _, granted, err := store.Take(ctx, l.names[name])
		return granted, err
	}}
}

func openUlule(dial goRedis) func(b testing.TB, _ *server, l load) session {
	return func(b testing.TB, _ *server, l load) session {
		store, err := ululeredis.NewStore(dial(b, l))
		require.NoError(b, err)
		instance := limiter.New(store, limiter.Rate{Limit: l.limit.permits, Period: l.limit.interval})
		return session{take: func(ctx context.Context, _, name int, permits int64) (bool, error) {
			got, err := instance.Increment(ctx, l.names[name], permits)
			return !got.Reached, err
		}}
	}
}

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
