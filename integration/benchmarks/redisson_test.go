package benchmarks

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
)

const script = "script" // Redisson's script, sent once per decision by rueidis

// redissonLibraries are the real client on the JVM, and its script.
var redissonLibraries = []library{
	{script, true, openScript},
	{"redisson-async", false, openRedisson},
}

// acquireScript is the script that Redisson sends for tryAcquire, and the form of its keys.
type acquireScript struct {
	lua  *rueidis.Lua
	keys []string // of the limiter capturedName
}

const capturedName = "limiter-to-capture"

// redissonScript captures the script while the real client acquires: it is Redisson's and not in
// this repository.
func redissonScript(b testing.TB) *acquireScript {
	redisson, addr := redisson(b), shared(b).addr
	return once(b, &captured, func(ctx context.Context) (*acquireScript, func()) {
		l := redisson.Limiter(capturedName)
		_, err := l.TrySetRate(ctx, oracle.Rate{Permits: 10, Interval: time.Hour})
		require.NoError(b, err)
		lua, keys, args := oracle.CaptureScript(b, addr, func() { _, _ = l.TryAcquire(ctx, 2) })
		require.Len(b, args, 3, "permits, milliseconds and random bytes")
		require.Equal(b, "2", args[0])
		require.Len(b, args[2], 16)
		return &acquireScript{rueidis.NewLuaScript(lua), keys}, func() {}
	})
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

func openScript(b testing.TB, _ *server, l load) session {
	script, redis := redissonScript(b), dial(b, l.addr)
	setRates(b, redis, l)
	keys := make([][]string, len(l.names))
	for i, name := range l.names {
		keys[i] = script.keysOf(name)
	}
	return session{take: func(ctx context.Context, _, name int, permits int64) (bool, error) {
		granted, _, err := script.take(ctx, redis, keys[name], permits, time.Now())
		return granted, err
	}}
}

// warmJVM lets the JVM run before it is measured for the first time.
var warmJVM = sync.OnceFunc(func() { time.Sleep(10 * time.Second) })

// openRedisson measures the real client: its callers are so many calls in flight.
func openRedisson(b testing.TB, redis *server, l load) session {
	ctx, client := context.Background(), redisson(b)
	setRates(b, redis.redis, l)
	return session{
		take: func(ctx context.Context, _, name int, permits int64) (bool, error) {
			return client.Limiter(l.names[name]).TryAcquire(ctx, permits)
		},
		drive: func(b *testing.B, l load, m *meter) tally {
			java := client.Limiter(namePrefix)
			require.NoError(b, java.StartBench(ctx, oracle.Bench{
				Limiters: len(l.names), Callers: l.callers, Async: true, Permits: 1,
			}))
			if !testing.Short() {
				warmJVM()
			}
			time.Sleep(l.warmup)
			m.begin(b)
			for b.Loop() {
				require.NoError(b, java.CountBench(ctx, 50*time.Millisecond))
			}
			m.end(b, 0)
			got, err := java.StopBench(ctx)
			require.NoError(b, err)
			m.elapsed, m.clientCPU, m.allocs = got.Elapsed, got.CPU, -1
			t := newTally()
			t.decisions, t.granted, t.failed = got.Decisions, got.Granted, got.Failed
			if got.Error != "" {
				t.err = errors.New(got.Error)
			}
			for i, n := range got.Latencies {
				shift := max(0, i/64-1)
				_ = t.latency.RecordValues(int64(i-shift*64)<<shift, int64(n))
			}
			return t
		},
	}
}
