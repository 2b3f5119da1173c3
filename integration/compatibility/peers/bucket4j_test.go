package peers

import (
	"fmt"
	"math/rand/v2"
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
