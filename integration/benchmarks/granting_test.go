package benchmarks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fastest has the settings of peers that make the most decisions with many callers.
var fastest = []string{"rueidislimiter+flushdelay", "redis_rate+autopipeline", "redis_rate+8pipelines",
	"ulule+autopipeline", "ulule+8pipelines"}

// others lists the peers of callers of one name. A lone caller is compared in BenchmarkOneCaller, and many
// callers of throttled would wait: only one of them succeeds at a time.
func others(callers int) []string {
	switch {
	case callers == 1:
		return []string{"rueidislimiter", "ulule"}
	case callers < manyCallers:
		return []string{"rueidislimiter", "redis_rate+autopipeline", "throttled", "go-redisstore", "ulule+autopipeline"}
	default:
		return fastest
	}
}

func BenchmarkGranting(b *testing.B) {
	for _, callers := range []int{1, 4, 16, 64, 256, 2048} {
		keys := []string{ours, script, emptyScript}
		switch callers {
		case 256:
			keys = append(keys, settings("rueidislimiter", "redis_rate", "go-redisstore", "ulule")...)
			keys = append(keys, ours+"+unshared", "redisson-async", "x-time-rate")
		case 1, 16:
			keys = append(append(keys, others(callers)...), ours+"+unshared", "redisson-async", "x-time-rate")
		case 2048: // no program opens 2,048 Clients, each of which counts the grants at its first call
			keys = append(append(keys, others(callers)...), "redisson-async", "x-time-rate")
		}
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) { compare(b, granting(callers), keys...) })
	}
}

func BenchmarkDenying(b *testing.B) {
	for _, callers := range []int{1, 16, 256, 2048} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			compare(b, denying(callers), append(others(callers), ours, script, "redisson-async", emptyScript)...)
		})
	}
}

// BenchmarkLink has a link of 2 ms between the callers and Redis.
func BenchmarkLink(b *testing.B) {
	for _, callers := range []int{16, 256, 2048} {
		for answer, l := range map[string]load{"granted": granting(callers), "denied": denying(callers)} {
			b.Run(fmt.Sprintf("answer=%s/callers=%d", answer, callers), func(b *testing.B) {
				compare(b, l.overLink(b), ours, script, emptyScript)
			})
		}
	}
}

func BenchmarkDenialCache(b *testing.B) {
	b.Run("callers=256", func(b *testing.B) { compare(b, denying(256), ours, ours+"+denialcache", script) })
}

// BenchmarkMixed requests one to three permits a call.
func BenchmarkMixed(b *testing.B) {
	b.Run("callers=256", func(b *testing.B) {
		l := granting(256)
		l.most = 3
		compare(b, l, ours, ours+"+unshared", script)
	})
}

func BenchmarkObserver(b *testing.B) {
	b.Run("callers=256", func(b *testing.B) { compare(b, granting(256), ours, ours+"+observer", script) })
}

// BenchmarkPrefetches measures what prefetching saves: the round trip.
func BenchmarkPrefetches(b *testing.B) {
	for _, callers := range []int{1, 16, 256, 2048} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			compare(b, granting(callers), ours+"+prefetch10ms", script)
		})
	}
	for _, callers := range []int{1, 256} {
		b.Run(fmt.Sprintf("over=link/callers=%d", callers), func(b *testing.B) {
			compare(b, granting(callers).overLink(b), ours+"+prefetch10ms", ours+"+prefetch10ms+nolink")
		})
	}
	b.Run("names=256/callers=256", func(b *testing.B) {
		// A prefetch of a second follows the demand of the second before: it has its full size after some
		// of them.
		l := grantingNames(256, 256)
		l.warmup *= 2
		compare(b, l, ours+"+prefetch10ms", ours+"+prefetch1s", script, "x-time-rate")
	})
}

// BenchmarkPolicies compares the policies of package limit with fixed windows and buckets.
func BenchmarkPolicies(b *testing.B) {
	b.Run("callers=256", func(b *testing.B) {
		compare(b, granting(256), slices.Concat(allPolicies(), fastest, []string{script})...)
	})
}

func allPolicies() (keys []string) {
	for _, l := range policyLibraries {
		keys = append(keys, l.key)
	}
	return keys
}

// BenchmarkNames is the limiter per user: 256 callers, each for a random name.
func BenchmarkNames(b *testing.B) {
	others := settings("rueidislimiter", "redis_rate", "throttled", "go-redisstore", "ulule")
	b.Run("names=10000/callers=256", func(b *testing.B) {
		compare(b, grantingNames(256, 10_000), slices.Concat(allPolicies(), others, []string{ours, ours + "+flushdelay",
			script, "redisson-async", emptyScript})...)
	})
	b.Run("names=10000/state=new/callers=256", func(b *testing.B) {
		l := grantingNames(256, 10_000)
		l.warmup = 0 // most calls are the first of their name
		compare(b, l, ours, script, emptyScript)
	})
	keys := append([]string{"FixedWindow", "FixedWindow+flushdelay", "TokenBucket", "TokenBucket+flushdelay",
		"rueidislimiter"}, fastest...)
	b.Run("names=1000000/callers=256", func(b *testing.B) { compare(b, grantingNames(256, 1_000_000), keys...) })
	b.Run("names=100000/pick=zipf/callers=256", func(b *testing.B) {
		l := grantingNames(256, 100_000)
		l.zipf = true
		compare(b, l, keys...)
	})
}

// BenchmarkDeadlines is BenchmarkNames with a context of its own for each call, which has a deadline.
func BenchmarkDeadlines(b *testing.B) {
	for _, callers := range []int{256, 2048} {
		b.Run(fmt.Sprintf("names=10000/callers=%d", callers), func(b *testing.B) {
			l := grantingNames(callers, 10_000)
			l.context = deadline
			compare(b, l, append(settings("rueidislimiter"), "FixedWindow", "FixedWindow+flushdelay", "ulule+8pipelines")...)
		})
	}
}

// BenchmarkCluster is BenchmarkNames on a cluster of three masters.
func BenchmarkCluster(b *testing.B) {
	for _, callers := range []int{16, 256, 2048} {
		b.Run(fmt.Sprintf("names=10000/callers=%d", callers), func(b *testing.B) {
			l := grantingNames(callers, 10_000)
			l.cluster = true
			compare(b, l, "FixedWindow", "FixedWindow+flushdelay", "TokenBucket", "rueidislimiter",
				"rueidislimiter+flushdelay", "ulule+autopipeline", "redis_rate+autopipeline", emptyScript)
		})
	}
}

// In turns of some milliseconds all libraries meet the same speed of the machine, which changes within
// seconds.
const (
	turnTime = 50 * time.Millisecond
	turns    = 10 // of each library, at least
)

// BenchmarkOneCaller has one caller, on loopback and over a link of 2 ms. The libraries take turns.
func BenchmarkOneCaller(b *testing.B) {
	keys := []string{ours, "FixedWindow", "SlidingWindow", "TokenBucket", script, emptyScript, "rueidislimiter",
		"rueidislimiter+pool", "redis_rate", "throttled", "go-redisstore", "ulule"}
	b.Run("over=loopback", func(b *testing.B) { takeTurns(b, granting(1), keys...) })
	b.Run("over=link", func(b *testing.B) { takeTurns(b, granting(1).overLink(b), keys...) })
}

// BenchmarkContexts gives each call of one caller a context of its own.
func BenchmarkContexts(b *testing.B) {
	for _, kind := range []contextKind{deadline, cancellable} {
		for answer, l := range map[string]load{"granted": granting(1), "denied": denying(1)} {
			l.context = kind
			b.Run(fmt.Sprintf("context=%s/answer=%s", kind, answer), func(b *testing.B) { takeTurns(b, l, ours, script) })
		}
	}
}

// contender is a library that takes turns with others on one server, with one caller for a name of
// its own.
type contender struct {
	library
	load   load
	take   take
	caller *caller
	used   meter
}

func takeTurns(b *testing.B, l load, keys ...string) {
	redis := shared(b)
	redis.clear(b)
	if l.addr == "" {
		l.addr = redis.addr
	}
	contenders := make([]*contender, len(keys))
	for i, key := range keys {
		l.names = []string{namePrefix + key}
		c := &contender{library: find(b, key), load: l, caller: newCaller(i, l)}
		c.take = c.open(b, redis, l).take
		if l.denied {
			c.caller.allPermits = exhaust(b, c.take, l)
		}
		contenders[i] = c
	}
	for b.Loop() {
		for range turns {
			for _, i := range rand.Perm(len(contenders)) {
				contenders[i].takeTurn(b, redis)
			}
		}
	}
	for _, c := range contenders {
		b.Run("library="+c.key, func(b *testing.B) {
			require.Empty(b, c.caller.refused(c.load))
			if c.recorded {
				require.Empty(b, redis.account(b, c.load, c.caller.allPermits))
			}
			c.used.report(b, c.caller.tally)
		})
	}
}

// takeTurn makes calls for the time of a turn. The first one wakes the connection and does not count.
func (c *contender) takeTurn(b *testing.B, redis *server) {
	ctx := context.Background()
	c.caller.call(ctx, c.take, c.load, false)
	m := &meter{redis: redis}
	m.begin(b)
	start := time.Now()
	for time.Since(start) < turnTime {
		c.caller.call(ctx, c.take, c.load, true)
	}
	m.end(b, time.Since(start))
	c.used.add(m)
}
