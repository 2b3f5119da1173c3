package benchmarks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
