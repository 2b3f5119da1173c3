package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
)

// contender is a library in one of its settings.
type contender struct {
	key   string // its name in flags
	title string
	// commands is the number of requests for each counted Redis command. Redis counts the commands
	// of a script under their own names, so the default counts only the scripts.
	commands map[string]float64
	inMemory bool // makes no calls to Redis
	open     opener
}

type opener func(ctx context.Context, b *bench, l load) (*session, error)

// session is a connected contender, with its limiters set.
type session struct {
	// take requests permits of the name with that index. Calls of different callers run at the same
	// time; those of one caller do not.
	take func(ctx context.Context, caller, name int, permits int64) (bool, error)
	// run, if set, is drive for callers in another process.
	run    func(ctx context.Context, warmup, d time.Duration, began, ended func() error) (tally, error)
	settle func(ctx context.Context) error // before Redis is compared with the answers of the callers; may be nil
	close  func()
}

var scripts = map[string]float64{"eval": 1, "evalsha": 1}

// contenders are in the order of the report.
var contenders = []contender{
	{key: "ours", title: "this library", commands: scripts, open: openOurs},
	{key: "cached", title: "this library, WithDenialCache", commands: scripts, open: openCached},
	{key: "observed", title: "this library, WithObserver", commands: scripts, open: openObserved},
	{key: "ours-delay", title: "this library, MaxFlushDelay", commands: scripts, open: openDelayed},
	{key: "leased", title: "this library, WithLease(10ms)", commands: scripts, open: openLeased(10 * time.Millisecond)},
	{key: "leased-long", title: "this library, WithLease(1s)", commands: scripts, open: openLeased(time.Second)},
	{key: "off", title: "this library, nothing shared", commands: scripts, open: openUnshared},
	{key: "script", title: "Redisson's script through rueidis", commands: scripts, open: openScript},
	{key: "jvm-sync", title: "Redisson 4.7.0, sync", commands: scripts, open: openRedisson("sync")},
	{key: "jvm-async", title: "Redisson 4.7.0, async", commands: scripts, open: openRedisson("async")},
	{key: "rueidislimiter", title: "rueidislimiter", commands: scripts, open: openRueidisLimiter(rueidis.ClientOption{})},
	{key: "rueidislimiter-pool", title: "rueidislimiter, DisableAutoPipelining", commands: scripts,
		open: openRueidisLimiter(rueidis.ClientOption{DisableAutoPipelining: true})},
	{key: "rueidislimiter-delay", title: "rueidislimiter, MaxFlushDelay", commands: scripts,
		open: openRueidisLimiter(rueidis.ClientOption{MaxFlushDelay: rueidisDelay})},
	{key: "redis_rate", title: "redis_rate v10", commands: scripts, open: openRedisRate(plain)},
	{key: "redis_rate-auto", title: "redis_rate, AutoPipeline", commands: scripts, open: openRedisRate(onePipeline)},
	{key: "redis_rate-many", title: "redis_rate, AutoPipeline, 8 at once", commands: scripts,
		open: openRedisRate(manyAtOnce)},
	{key: "redis_rate-delay", title: "redis_rate, AutoPipeline, delay", commands: scripts,
		open: openRedisRate(withFlushing)},
	// TIME and GET come in one pipeline, and SET or the script of the compare-and-swap follow.
	{key: "throttled", title: "throttled v2", commands: map[string]float64{"time": 2, "eval": 1, "evalsha": 1},
		open: openThrottled},
	{key: "redisstore", title: "go-redisstore", commands: scripts, open: openRedisStore},
	{key: "ulule", title: "ulule/limiter v3", commands: scripts, open: openUlule(plain)},
	{key: "ulule-auto", title: "ulule, AutoPipeline", commands: scripts, open: openUlule(onePipeline)},
	{key: "ulule-many", title: "ulule, AutoPipeline, 8 at once", commands: scripts, open: openUlule(manyAtOnce)},
	{key: "ulule-delay", title: "ulule, AutoPipeline, delay", commands: scripts, open: openUlule(withFlushing)},
	{key: "fixed", title: "FixedWindow", commands: scripts, open: openPolicies(fixedWindow)},
	{key: "bucket", title: "TokenBucket", commands: scripts, open: openPolicies(tokenBucket)},
	{key: "sliding", title: "SlidingWindow", commands: scripts, open: openPolicies(slidingWindow)},
	{key: "log", title: "SlidingLog", commands: scripts, open: openPolicies(slidingLog)},
	{key: "leaky", title: "LeakyBucket", commands: scripts, open: openPolicies(leakyBucket)},
	{key: "smooth", title: "Smooth", commands: scripts, open: openPolicies(smooth)},
	{key: "both", title: "FixedWindow and TokenBucket at once", commands: scripts, open: openPolicies(both)},
	{key: "empty", title: "baseline: an empty script", commands: scripts, open: openEmpty},
	{key: "xtime", title: "baseline: x/time/rate, in process", inMemory: true, open: openXTime},
}

// dial opens a rueidis client with its default options, the same for every contender that uses
// rueidis.
func dial(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
}

// dialPatiently opens a client that waits for calls that block the server for seconds.
func dialPatiently(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ConnWriteTimeout: time.Minute})
}

func openOurs(ctx context.Context, _ *bench, l load) (*session, error) { return openShared(ctx, l) }

// openDelayed is for many limiters, whose callers cannot share calls.
func openDelayed(ctx context.Context, _ *bench, l load) (*session, error) {
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{l.addr}, MaxFlushDelay: rueidisDelay})
	if err != nil {
		return nil, err
	}
	return sharedSession(redis, rratelimiter.New(redis), l), setRates(ctx, redis, l)
}

func openCached(ctx context.Context, _ *bench, l load) (*session, error) {
	return openShared(ctx, l, rratelimiter.WithDenialCache(time.Minute))
}

// openLeased releases the leases once the callers have ended.
func openLeased(d time.Duration) opener {
	return func(ctx context.Context, _ *bench, l load) (*session, error) {
		redis, err := dial(l.addr)
		if err != nil {
			return nil, err
		}
		client := rratelimiter.New(redis, rratelimiter.WithLease(d))
		s := sharedSession(redis, client, l)
		s.settle = func(ctx context.Context) error {
			err := client.Flush(ctx)
			time.Sleep(50 * time.Millisecond) // a call that brings one more lease may be in flight, and releases it
			return err
		}
		return s, setRates(ctx, redis, l)
	}
}

func openShared(ctx context.Context, l load, opts ...rratelimiter.Option) (*session, error) {
	redis, err := dial(l.addr)
	if err != nil {
		return nil, err
	}
	return sharedSession(redis, rratelimiter.New(redis, opts...), l), setRates(ctx, redis, l)
}

func sharedSession(redis rueidis.Client, client *rratelimiter.Client, l load) *session {
	limiters := make([]*rratelimiter.Limiter, len(l.names))
	for i, name := range l.names {
		limiters[i] = client.Limiter(name)
	}
	return &session{
		take: func(ctx context.Context, _, name int, permits int64) (bool, error) {
			return limiters[name].TryAcquire(ctx, permits)
		},
		close: redis.Close,
	}
}

// openUnshared gives each caller a Client of its own on one connection pool, so that no two share a
// call.
func openUnshared(ctx context.Context, _ *bench, l load) (*session, error) {
	redis, err := dial(l.addr)
	if err != nil {
		return nil, err
	}
	clients := make([]*rratelimiter.Client, l.callers)
	limiters := make([]map[int]*rratelimiter.Limiter, l.callers)
	for i := range clients {
		clients[i], limiters[i] = rratelimiter.New(redis), make(map[int]*rratelimiter.Limiter)
	}
	return &session{
		take: func(ctx context.Context, caller, name int, permits int64) (bool, error) {
			limiter := limiters[caller][name]
			if limiter == nil {
				limiter = clients[caller].Limiter(l.names[name])
				limiters[caller][name] = limiter
			}
			return limiter.TryAcquire(ctx, permits)
		},
		close: redis.Close,
	}, setRates(ctx, redis, l)
}

// setRates configures the limiters that this library and Redisson understand.
func setRates(ctx context.Context, redis rueidis.Client, l load) error {
	commands := make(rueidis.Commands, len(l.names))
	for i, name := range l.names {
		commands[i] = redis.B().Hset().Key(name).FieldValue().
			FieldValue("rate", strconv.FormatInt(l.limit.permits, 10)).
			FieldValue("interval", strconv.FormatInt(l.limit.interval.Milliseconds(), 10)).
			FieldValue("type", "0").FieldValue("keepAliveTime", "0").Build()
	}
	var errs []error
	for _, result := range redis.DoMulti(ctx, commands...) {
		errs = append(errs, result.Error())
	}
	return errors.Join(errs...)
}

// acquireScript is the script that Redisson sends for tryAcquire, and the form of its keys.
type acquireScript struct {
	lua  *rueidis.Lua
	keys []string // of the limiter capturedName
}

const capturedName = "limiter-to-capture"

// captureScript captures the script while the real client acquires: it is Redisson's and not in
// this repository.
func captureScript(ctx context.Context, r *oracle.Redisson, addr string) (*acquireScript, error) {
	l := r.Limiter(capturedName)
	if _, err := l.TrySetRate(ctx, oracle.Rate{Permits: 10, Interval: time.Hour}); err != nil {
		return nil, err
	}
	var acquireErr error
	script, keys, args, err := oracle.CaptureScript(ctx, addr, func() { _, acquireErr = l.TryAcquire(ctx, 2) })
	if err := errors.Join(err, acquireErr); err != nil {
		return nil, fmt.Errorf("capturing Redisson's script: %w", err)
	}
	if len(args) != 3 || args[0] != "2" || len(args[2]) != 16 {
		return nil, fmt.Errorf("the script of Redisson has %d arguments, want permits, milliseconds and 16 random bytes: %q", len(args), args)
	}
	if _, err := strconv.ParseInt(args[1], 10, 64); err != nil {
		return nil, fmt.Errorf("the script of Redisson has no time as its second argument: %w", err)
	}
	return &acquireScript{rueidis.NewLuaScript(script), keys}, nil
}

func (s *acquireScript) keysOf(name string) []string {
	keys := make([]string, len(s.keys))
	for i, key := range s.keys {
		keys[i] = strings.ReplaceAll(key, capturedName, name)
	}
	return keys
}

// take runs the script as Redisson does, once. It returns how long to wait if the permits are not
// free.
func (s *acquireScript) take(ctx context.Context, redis rueidis.Client, keys []string, permits int64,
	now time.Time) (bool, time.Duration, error) {
	var random [16]byte
	binary.LittleEndian.PutUint64(random[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(random[8:], rand.Uint64())
	args := []string{strconv.FormatInt(permits, 10), strconv.FormatInt(now.UnixMilli(), 10), string(random[:])}
	wait, err := s.lua.Exec(ctx, redis, keys, args).AsInt64()
	if rueidis.IsRedisNil(err) {
		return true, 0, nil
	}
	return false, time.Duration(wait) * time.Millisecond, err
}

func openScript(ctx context.Context, b *bench, l load) (*session, error) {
	script, err := b.redissonScript(ctx)
	if err != nil {
		return nil, err
	}
	redis, err := dial(l.addr)
	if err != nil {
		return nil, err
	}
	keys := make([][]string, len(l.names))
	for i, name := range l.names {
		keys[i] = script.keysOf(name)
	}
	return &session{
		take: func(ctx context.Context, _, name int, permits int64) (bool, error) {
			granted, _, err := script.take(ctx, redis, keys[name], permits, time.Now())
			return granted, err
		},
		close: redis.Close,
	}, setRates(ctx, redis, l)
}

// openEmpty opens the baseline of all contenders that run one script per decision. Its answer is the
// one that the scenario expects.
func openEmpty(_ context.Context, _ *bench, l load) (*session, error) {
	redis, err := dial(l.addr)
	if err != nil {
		return nil, err
	}
	empty := rueidis.NewLuaScript("return 1")
	granting := l.expect == allGranted
	return &session{
		take: func(ctx context.Context, _, name int, _ int64) (bool, error) {
			_, err := empty.Exec(ctx, redis, l.names[name:name+1], nil).AsInt64()
			return granting, err
		},
		close: redis.Close,
	}, nil
}
