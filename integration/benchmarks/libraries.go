package main

import (
	"context"
	"math"
	"net"
	"time"

	"github.com/go-redis/redis_rate/v10"
	redigo "github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"
	"github.com/sethvargo/go-redisstore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
	"golang.org/x/time/rate"
)

// The peers run with their default options, unless these would fail under the load. If their client
// can share round trips at the price of latency, each way to do so is a contender of its own.

// How long a write waits for later ones, as in each client's documentation.
const (
	goRedisDelay = 100 * time.Microsecond
	rueidisDelay = 20 * time.Microsecond
)

// goRedis opens a client of go-redis.
type goRedis func(addr string) (redis goredis.UniversalClient, closeRedis func(), err error)

// plain takes a connection of its pool for each call.
func plain(addr string) (goredis.UniversalClient, func(), error) {
	redis := goredis.NewClient(&goredis.Options{Addr: addr})
	return redis, func() { _ = redis.Close() }, nil
}

// autoPipeline puts calls that are made at the same time into pipelines.
func autoPipeline(change func(*goredis.AutoPipelineOptions)) goRedis {
	return func(addr string) (goredis.UniversalClient, func(), error) {
		redis := goredis.NewClient(&goredis.Options{Addr: addr})
		options := goredis.DefaultBlockingAutoPipelineOptions()
		change(options)
		pipelines, err := redis.AutoPipelineWithOptions(options)
		return pipelines, func() { _ = redis.Close() }, err
	}
}

// The ways of AutoPipeline: one pipeline after the other, which is the default; several at once;
// and one that waits for more calls.
var (
	onePipeline  = autoPipeline(func(*goredis.AutoPipelineOptions) {})
	manyAtOnce   = autoPipeline(func(o *goredis.AutoPipelineOptions) { o.MaxConcurrentBatches, o.Unordered = 8, true })
	withFlushing = autoPipeline(func(o *goredis.AutoPipelineOptions) { o.MaxFlushDelay = goRedisDelay })
)

func openRedisRate(dial goRedis) opener {
	return func(_ context.Context, _ *bench, l load) (*session, error) {
		redis, closeRedis, err := dial(l.addr)
		if err != nil {
			return &session{close: closeRedis}, err
		}
		limiter := redis_rate.NewLimiter(redis)
		limit := redis_rate.Limit{Rate: int(l.limit.permits), Burst: int(l.limit.permits), Period: l.limit.interval}
		return &session{
			take: func(ctx context.Context, _, name int, permits int64) (bool, error) {
				result, err := limiter.AllowN(ctx, l.names[name], limit, int(permits))
				return err == nil && result.Allowed > 0, err
			},
			close: closeRedis,
		}, nil
	}
}

func openRueidisLimiter(option rueidis.ClientOption) opener {
	return func(_ context.Context, _ *bench, l load) (*session, error) {
		option.InitAddress = []string{l.addr}
		redis, err := rueidis.NewClient(option)
		if err != nil {
			return nil, err
		}
		limiter, err := rueidislimiter.NewRateLimiter(rueidislimiter.RateLimiterOption{
			ClientBuilder: func(rueidis.ClientOption) (rueidis.Client, error) { return redis, nil },
			Limit:         int(l.limit.permits),
			Window:        l.limit.interval,
		})
		return &session{
			take: func(ctx context.Context, _, name int, permits int64) (bool, error) {
				result, err := limiter.AllowN(ctx, l.names[name], permits)
				return result.Allowed, err
			},
			close: redis.Close,
		}, err
	}
}

func openThrottled(_ context.Context, _ *bench, l load) (*session, error) {
	redis := goredis.NewClient(&goredis.Options{Addr: l.addr})
	closeRedis := func() { _ = redis.Close() }
	store, err := goredisstore.NewCtx(redis, "throttled:")
	if err != nil {
		return &session{close: closeRedis}, err
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate:  throttled.PerDuration(int(l.limit.permits), l.limit.interval),
		MaxBurst: int(l.limit.permits) - 1,
	})
	if err != nil {
		return &session{close: closeRedis}, err
	}
	// Of many callers that compare and swap at the same time one succeeds, and its default of 10
	// attempts ends in errors.
	limiter.SetMaxCASAttemptsLimit(math.MaxInt32)
	return &session{
		take: func(ctx context.Context, _, name int, permits int64) (bool, error) {
			limited, _, err := limiter.RateLimitCtx(ctx, l.names[name], int(permits))
			return !limited, err
		},
		close: closeRedis,
	}, nil
}

const redigoConnections = 100

// openRedisStore keeps idle connections and waits for a free one: by default the pool keeps none,
// and above 100 callers it fails.
func openRedisStore(ctx context.Context, _ *bench, l load) (*session, error) {
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
	if err != nil {
		return nil, err
	}
	return &session{
		take: func(ctx context.Context, _, name int, _ int64) (bool, error) {
			_, _, _, granted, err := store.Take(ctx, l.names[name])
			return granted, err
		},
		close: func() { _ = store.Close(context.WithoutCancel(ctx)) },
	}, nil
}

func openUlule(dial goRedis) opener {
	return func(_ context.Context, _ *bench, l load) (*session, error) {
		redis, closeRedis, err := dial(l.addr)
		if err != nil {
			return &session{close: closeRedis}, err
		}
		store, err := ululeredis.NewStore(redis)
		if err != nil {
			return &session{close: closeRedis}, err
		}
		instance := limiter.New(store, limiter.Rate{Limit: l.limit.permits, Period: l.limit.interval})
		return &session{
			take: func(ctx context.Context, _, name int, permits int64) (bool, error) {
				got, err := instance.Increment(ctx, l.names[name], permits)
				return !got.Reached, err
			},
			close: closeRedis,
		}, nil
	}
}

// openXTime opens the baseline: a limiter that shares nothing between processes.
func openXTime(_ context.Context, _ *bench, l load) (*session, error) {
	limiters := make([]*rate.Limiter, len(l.names))
	for i := range limiters {
		limiters[i] = rate.NewLimiter(rate.Limit(float64(l.limit.permits)/l.limit.interval.Seconds()), int(l.limit.permits))
	}
	return &session{
		take: func(_ context.Context, _, name int, permits int64) (bool, error) {
			return limiters[name].AllowN(time.Now(), int(permits)), nil
		},
		close: func() {},
	}, nil
}
