package peers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/clocked"
	"github.com/rratelimiter/rratelimiter/limit"
)

type bucketRequest struct {
	Call           string `json:"call"`
	Capacity       int64  `json:"capacity,omitempty"`
	Refill         int64  `json:"refill,omitempty"`
	IntervalMicros int64  `json:"intervalMicros,omitempty"`
	At             int64  `json:"at"`
	Permits        int64  `json:"permits,omitempty"`
}

type bucketAnswer struct {
	Granted bool  `json:"granted"`
	Nanos   int64 `json:"nanos"`
	Left    int64 `json:"left"`
}

// tryConsume, and consume with the time that it would sleep, of a Bucket with a greedy refill, to
// the microsecond. Bucket4j reports waits in nanoseconds, which are rounded up here.
func TestTokenBucket_Bucket4j_MatchesReplies(t *testing.T) {
	theirs := startPeer[bucketRequest, bucketAnswer](t, "io.github.rratelimiter.peers.BucketLines")
	for _, p := range []limit.TokenBucket{
		{Capacity: 20, Refill: 5, Interval: 10 * time.Minute},
		{Capacity: 7, Refill: 3, Interval: 11 * time.Minute},
		{Capacity: 50, Refill: 7919, Interval: 100 * time.Hour},
	} {
		t.Run(fmt.Sprintf("%+v", p), func(t *testing.T) {
			s := clocked.Start(t)
			random := rand.New(rand.NewPCG(9, 10))
			ours := limit.New(s.Client, "name", p)
			key := fmt.Sprintf("{name}:bucket:%d", p.Interval.Milliseconds())
			begin := s.Now
			theirs.call(t, bucketRequest{Call: "create", Capacity: p.Capacity, Refill: p.Refill,
				IntervalMicros: p.Interval.Microseconds()})
			count := make(map[string]int)
			for step := range steps {
				seen, err := ours.Peek(t.Context())
				require.NoError(t, err)
				switch each := int64(p.Interval) / p.Refill; random.IntN(10) {
				case 0:
					s.Now = s.Now.Add(seen[0].RetryAfter)
				case 1:
					s.Now = s.Now.Add(max(0, seen[0].RetryAfter-time.Microsecond))
				case 2:
					s.Now = s.Now.Add(time.Duration(random.Int64N(each * p.Capacity)).Truncate(time.Microsecond))
				case 3, 4, 5, 6:
					s.Now = s.Now.Add(time.Duration(random.Int64N(each * 3)).Truncate(time.Microsecond))
				}
				q := bucketRequest{Call: "tryConsume", At: s.Now.Sub(begin).Microseconds(),
					Permits: 1 + random.Int64N(1+random.Int64N(p.Capacity))}
				where := fmt.Sprintf("step %d: %+v", step, q)
				want := theirs.call(t, q)
				got, err := ours.Take(t.Context(), q.Permits)
				require.NoError(t, err)
				require.Equal(t, want.Granted, got.Allowed, where)
				require.Equal(t, max(0, want.Left), got.Remaining, where)
				count[fmt.Sprintf("granted %t", got.Allowed)]++
				if !got.Allowed && random.IntN(4) == 0 {
					q.Call = "consume"
					want := theirs.call(t, q)
					wait := time.Duration(want.Nanos)
					require.GreaterOrEqual(t, got.RetryAfter, wait, where)
					require.LessOrEqual(t, got.RetryAfter, wait+time.Microsecond, where)
					_, err := ours.Charge(t.Context(), q.Permits) // taken ahead of time, as consume does
					require.NoError(t, err)
					count["waits"]++
				}
				s.Persist(t, key)
			}
			t.Log(count)
			for _, kind := range []string{"granted true", "granted false", "waits"} {
				assert.Greater(t, count[kind], steps/200, kind)
			}
		})
	}
}

type guavaRequest struct {
	Call         string  `json:"call"`
	Rate         float64 `json:"rate,omitempty"`
	BurstSeconds float64 `json:"burstSeconds,omitempty"`
	WarmUpMicros int64   `json:"warmUpMicros,omitempty"`
	ColdFactor   float64 `json:"coldFactor,omitempty"`
	At           int64   `json:"at"`
	Permits      int64   `json:"permits,omitempty"`
}

type guavaAnswer struct {
	Granted bool    `json:"granted"`
	Seconds float64 `json:"seconds"`
	Stored  float64 `json:"stored"`
}

// tryAcquire and acquire of Guava's RateLimiter, on an injected clock, to the microsecond and with
// the stored permits to the last digit. A new RateLimiter has no stored permits. Here it has been
// idle long before the first call, because that is the state of a new name.
func TestSmooth_Guava_MatchesReplies(t *testing.T) {
	theirs := startPeer[guavaRequest, guavaAnswer](t, "com.google.common.util.concurrent.RateLimiterLines")
	for _, p := range []limit.Smooth{
		{Permits: 7, Interval: 10 * time.Minute, Burst: 30 * time.Minute},
		{Permits: 1, Interval: time.Minute},
		{Permits: 3, Interval: 7 * time.Minute, Burst: 100 * time.Minute},
		{Permits: 10, Interval: 11 * time.Minute, WarmUp: 40 * time.Minute},
		{Permits: 2, Interval: 3 * time.Minute, WarmUp: time.Hour},
		{Permits: 1, Interval: time.Minute, WarmUp: 30 * time.Second},
	} {
		t.Run(fmt.Sprintf("%+v", p), func(t *testing.T) {
			s := clocked.Start(t)
			random := rand.New(rand.NewPCG(7, 8))
			ours := limit.New(s.Client, "name", p)
			create := guavaRequest{Call: "create", Rate: float64(p.Permits) / p.Interval.Seconds(),
				BurstSeconds: p.Burst.Seconds(),
				WarmUpMicros: p.WarmUp.Microseconds(), ColdFactor: 3}
			key := fmt.Sprintf("{name}:smooth:%d", p.Interval.Milliseconds())
			if p.WarmUp > 0 {
				key = fmt.Sprintf("{name}:warmup:%d", p.Interval.Milliseconds())
			}
			if p.Burst == 0 {
				create.BurstSeconds = 1
			}
			theirs.call(t, create)
			begin := s.Now.Add(-1000 * time.Hour)
			count := make(map[string]int)
			for step := range steps {
				each := p.Interval / time.Duration(p.Permits)
				seen, err := ours.Peek(t.Context())
				require.NoError(t, err)
				switch wait := seen[0].RetryAfter; random.IntN(8) {
				case 0:
					s.Now = s.Now.Add(wait)
				case 1:
					s.Now = s.Now.Add(max(0, wait-time.Microsecond))
				case 2:
					s.Now = s.Now.Add(seen[0].ResetAfter)
				case 3:
					s.Now = s.Now.Add(wait + time.Duration(random.Int64N(int64(each)*20)).Truncate(time.Microsecond))
				case 4, 5:
					s.Now = s.Now.Add(time.Duration(random.Int64N(int64(each) * 4)).Truncate(time.Microsecond))
				}
				q := guavaRequest{At: s.Now.Sub(begin).Microseconds(), Permits: 1 + random.Int64N(1+random.Int64N(12))}
				where := fmt.Sprintf("step %d: %+v", step, q)
				changed := true
				var stored float64
				if random.IntN(3) > 0 {
					q.Call = "tryAcquire"
					want := theirs.call(t, q)
					got, err := ours.TryAcquire(t.Context(), q.Permits)
					require.NoError(t, err)
					require.Equal(t, want.Granted, got, where)
					changed, stored = got, want.Stored
					count[fmt.Sprintf("tryAcquire %t", got)]++
				} else {
					q.Call = "acquire"
					seen, err := ours.Peek(t.Context())
					require.NoError(t, err)
					want := theirs.call(t, q)
					stored = want.Stored
					delay := time.Duration(math.Round(want.Seconds*1e6)) * time.Microsecond
					require.Equal(t, delay, seen[0].RetryAfter, where)
					_, err = ours.Charge(t.Context(), q.Permits) // taken ahead of time, as acquire does
					require.NoError(t, err)
					count[fmt.Sprintf("acquire waits %t", delay > 0)]++
				}
				if changed {
					text, err := s.Redis.Do(t.Context(), s.Redis.B().Get().Key(key).Build()).ToString()
					require.NoError(t, err, where)
					got, err := strconv.ParseFloat(strings.Fields(text)[1], 64)
					require.NoError(t, err)
					require.Equal(t, stored, got, where)
					s.Persist(t, key)
				}
			}
			t.Log(count)
			for _, kind := range []string{"tryAcquire true", "tryAcquire false", "acquire waits true",
				"acquire waits false"} {
				assert.Greater(t, count[kind], steps/200, kind)
			}
		})
	}
}
