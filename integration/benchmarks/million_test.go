package benchmarks

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// grants is how many grants expire at once, and of how many the memory is measured.
func grants() int64 {
	if testing.Short() {
		return 10_000
	}
	return 1_000_000
}

// BenchmarkExpiry measures the longest time for which the server is blocked when very many grants
// expire at once, all of them or all but one.
func BenchmarkExpiry(b *testing.B) {
	for staying, grants := range []string{"all", "all-but-one"} {
		for _, key := range []string{ours, script} {
			b.Run("grants="+grants+"/library="+key, func(b *testing.B) {
				for b.Loop() {
					longest, calls := expire(b, staying, key == ours)
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(float64(longest), "longest-ns")
					b.ReportMetric(float64(calls), "calls")
				}
			})
		}
	}
}

// slowest is the duration from which SLOWLOG records a call: logging itself takes time.
const slowest = 100 * time.Microsecond

// expire lets the grants expire, and acquires until the limiter has counted all their permits as
// free. It returns the longest of these calls and their number.
func expire(b *testing.B, staying int, isOurs bool) (longest time.Duration, calls int) {
	redis, name, count := shared(b), names(1)[0], grants()
	rate := limit{2 * count, time.Minute}
	then := time.Now().Add(-rate.interval)
	now := &clock{then.Add(rate.interval)}
	redis.clear(b)
	acquire := scriptCase{limit: rate}.open(b, redis, name, now, isOurs)
	acquire() // it may have to send the script's text, which SLOWLOG would count as a long call
	redis.do(b, "DEL", "{"+name+"}:permits", "{"+name+"}:value")
	prepared := slices.Repeat([]preparedGrant{{then, 1}}, int(count))
	for i := range staying {
		prepared[i].at = now.now
	}
	redis.prepare(b, name, rate.permits-count, prepared)
	redis.do(b, "CONFIG", "SET", "slowlog-log-slower-than", strconv.FormatInt(slowest.Microseconds(), 10))
	redis.do(b, "CONFIG", "SET", "slowlog-max-len", "100000")
	redis.do(b, "SLOWLOG", "RESET")
	for left := int64(1); left > 0; calls++ {
		require.True(b, acquire(), "denied though permits were free")
		reply := redis.do(b, "ZCOUNT", "{"+name+"}:permits", "-inf", strconv.FormatInt(then.UnixMilli(), 10))
		var err error
		left, err = reply.AsInt64()
		require.NoError(b, err)
	}
	return max(slowest, longestScript(b, redis)), calls
}

// longestScript returns the longest call of a script in SLOWLOG.
func longestScript(b *testing.B, redis *server) (longest time.Duration) {
	log := redis.do(b, "SLOWLOG", "GET", "-1")
	entries, err := log.ToArray()
	require.NoError(b, err)
	for _, entry := range entries {
		// Id, time, microseconds, arguments, and other fields that are not used here.
		fields, err := entry.ToArray()
		require.NoError(b, err)
		args, err := fields[3].AsStrSlice()
		require.NoError(b, err)
		took, err := fields[2].AsInt64()
		require.NoError(b, err)
		if args[0] == "EVALSHA" || args[0] == "EVAL" {
			longest = max(longest, time.Duration(took)*time.Microsecond)
		}
	}
	return longest
}

// BenchmarkMemory measures the memory in Redis of grants that 256 callers took within the window.
func BenchmarkMemory(b *testing.B) {
	for _, key := range []string{ours, script} {
		b.Run("callers=256/library="+key, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(memory(b, find(b, key))/float64(grants()), "B/grant")
			}
		})
	}
}

func memory(b *testing.B, lib library) (bytes float64) {
	ctx, redis, l := context.Background(), shared(b), granting(256)
	redis.clear(b)
	l.addr = redis.addr
	s := lib.open(b, redis, l)
	var left, granted atomic.Int64
	left.Store(grants())
	var running sync.WaitGroup
	for i := range l.callers {
		running.Go(func() {
			for left.Add(-1) >= 0 {
				if ok, err := s.take(ctx, i, 0, 1); ok && err == nil {
					granted.Add(1)
				}
			}
		})
	}
	running.Wait()
	require.Equal(b, grants(), granted.Load(), "a call failed or was denied")
	require.Empty(b, redis.account(b, l, grants()))
	message := redis.do(b, "KEYS", "*")
	keys, err := message.AsStrSlice()
	require.NoError(b, err)
	for _, key := range keys {
		message := redis.do(b, "MEMORY", "USAGE", key, "SAMPLES", "0")
		n, err := message.AsInt64()
		require.NoError(b, err)
		bytes += float64(n)
	}
	return bytes
}
