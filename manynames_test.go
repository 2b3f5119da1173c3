package rratelimiter

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLimitersOfOneCallHaveTheirOwnRates, and intervals, however those before them are, corrupt ones too.
func TestLimitersOfOneCallHaveTheirOwnRates(t *testing.T) {
	kinds := []struct{ rate, interval string }{
		{"5", "60000"}, {"5", "60000"}, {"5", "3600000"}, {"7", "3600000"}, {"5x", "60000"}, {"5x", "60000"}, {"5", "60000"}, {"5", "1h"}, {"5", "1h"},
		{"9007199254740992", "60000"}, {"9007199254740993", "60000"}, {"9007199254740992", "3600000"}, {"60000", "50000"}, {"05", "60000"}, {"5", "60000"},
	}
	inBubble(t, func(b *bubble) {
		counting := &pipelines{Client: b.conn}
		c := New(counting)
		limiters := make([]*Limiter, 20*len(kinds))
		for i := range limiters {
			kind := kinds[i%len(kinds)]
			limiters[i] = c.Limiter(fmt.Sprint("limiter:", i))
			b.redis.HSet(limiters[i].Name(), "rate", kind.rate, "interval", kind.interval, "type", "0", "keepAliveTime", "0")
		}
		for round := range 3 {
			answers, errs := takeOfEach(b, limiters)
			for i, answer := range answers {
				switch kind := kinds[i%len(kinds)]; {
				case kind.rate == "5x" || kind.rate == "9007199254740993":
					require.ErrorContains(b, errs[i], kind.rate)
				case kind.interval == "1h":
					require.ErrorContains(b, errs[i], kind.interval)
				default:
					rate, err := strconv.ParseInt(kind.rate, 10, 64)
					require.NoError(b, err)
					interval, err := time.ParseDuration(kind.interval + "ms")
					require.NoError(b, err)
					require.NoError(b, errs[i], "%d: %v", i, kind)
					assert.Equal(b, Decision{Allowed: true, Limit: rate, Remaining: rate - int64(round) - 1, ResetAfter: interval},
						answer, "%d: %v", i, kind)
				}
			}
		}
		assert.Less(b, counting.commands.Load(), int64(3*len(limiters)/2), "calls of one script are one: a tenth is usual, how many meet is chance")
	})
}
