package rratelimiter

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// drift is what another client does to the state of a busy limiter.
type drift struct {
	rate, later int64 // before and after
	rateType    RateType
	do          func(b *bubble, value string, rate, later int64)
}

func drifts() map[string]drift {
	number := func(b *bubble, key string) int64 {
		text, err := b.Redis.Get(key)
		require.NoError(b, err)
		n, err := strconv.ParseInt(text, 10, 64)
		require.NoError(b, err)
		return n
	}
	setRate := func(b *bubble, rate int64) { b.Redis.HSet("limiter", "rate", strconv.FormatInt(rate, 10)) }
	redissonReleases := func(b *bubble, value string, rate, _ int64) {
		require.NoError(b, b.Redis.Set(value, strconv.FormatInt(min(rate, number(b, value)+rate), 10)))
	}
	redissonKeepsState := func(b *bubble, value string, rate, later int64) {
		used := rate - number(b, value)
		setRate(b, later)
		require.NoError(b, b.Redis.Set(value, strconv.FormatInt(max(0, later-used), 10)))
	}
	otherSetsRate := func(b *bubble, _ string, _, later int64) { setRate(b, later) }
	lost := func(b *bubble, value string, rate, _ int64) {
		require.NoError(b, b.Redis.Set(value, strconv.FormatInt(number(b, value)-rate/2, 10)))
	}
	all := make(map[string]drift)
	for _, scale := range []int64{1, 3} { // a set of less than a page, and of more
		name := func(text string) string { return fmt.Sprintf("%s, %d permits", text, 100*scale) }
		all[name("Redisson releases")] = drift{100 * scale, 100 * scale, Overall, redissonReleases}
		all[name("Redisson lowers the rate and keeps the state")] = drift{100 * scale, 10 * scale, Overall, redissonKeepsState}
		all[name("another client lowers a PER_CLIENT rate")] = drift{100 * scale, 10 * scale, PerClient, otherSetsRate}
		all[name("another client raises a PER_CLIENT rate")] = drift{10 * scale, 100 * scale, PerClient, otherSetsRate}
		all[name("permits were lost")] = drift{100 * scale, 100 * scale, Overall, lost}
	}
	return all
}

// TestTryAcquire_Drift_HealsWithinAnInterval: every window that begins an interval or more after the drift holds at most
// the rate, and the rate can be taken in it. The callers never pause, so that the set is never empty, and each call
// grants one permit.
func TestTryAcquire_Drift_HealsWithinAnInterval(t *testing.T) {
	const interval = 10 * time.Second
	for name, test := range drifts() {
		for _, fresh := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, a Limiter for each call %t", name, fresh), func(t *testing.T) {
				inBubble(t, func(b *bubble) {
					l := b.limiter(Rate{Type: test.rateType, Permits: test.rate, Interval: interval})
					client := l.wire.client
					var grants []time.Time
					most := max(test.rate, test.later)
					run := func(d time.Duration) {
						for end := time.Now().Add(d); time.Now().Before(end); pass(interval / time.Duration(most*2)) {
							if fresh {
								l = client.Limiter("limiter")
							}
							ok, err := l.TryAcquire(b.Context(), 1)
							require.NoError(b, err)
							if ok {
								grants = append(grants, time.Now())
							}
						}
					}
					run(interval + interval/4) // in a window that is full
					value := l.wire.keys[valueKey]
					if test.rateType == PerClient {
						value = l.wire.keys[clientValueKey]
					}
					test.do(b, value, test.rate, test.later)
					drifted := time.Now()
					run(4 * interval)

					first := drifted.Add(interval)
					for i, from := 0, first; from.Add(interval).Before(time.Now()); i, from = i+1, from.Add(interval/7) {
						var held int64
						for _, at := range grants {
							if !at.Before(from) && at.Before(from.Add(interval)) {
								held++
							}
						}
						assert.LessOrEqual(b, held, test.later, "in the window that begins %v after the drift", from.Sub(drifted))
						if from.Sub(first) >= interval {
							assert.GreaterOrEqual(b, held, test.later*9/10, "in the window that begins %v after the drift", from.Sub(drifted))
						}
					}
				})
			})
		}
	}
}
