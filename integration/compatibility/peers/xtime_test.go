package peers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/rratelimiter/rratelimiter/integration/tools/clocked"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// TestTokenBucket_XTimeRate_MatchesReplies compares AllowN, and Charge with ReserveN, which takes permits
// that are not free too. The rates are those that a float64 holds exactly: x/time/rate counts in float64,
// so other rates differ by a rounding.
func TestTokenBucket_XTimeRate_MatchesReplies(t *testing.T) {
	for _, p := range []limit.TokenBucket{
		{Capacity: 8, Refill: 1, Interval: 64 * time.Second},
		{Capacity: 3, Refill: 4, Interval: 1024 * time.Second},
		{Capacity: 100, Refill: 2, Interval: 32 * time.Second},
	} {
		t.Run(fmt.Sprintf("%+v", p), func(t *testing.T) {
			s := clocked.Start(t)
			random := rand.New(rand.NewPCG(5, 6))
			ours := limit.New(s.Client, "name", p)
			theirs := rate.NewLimiter(rate.Limit(float64(p.Refill)/p.Interval.Seconds()), int(p.Capacity))
			token := p.Interval / time.Duration(p.Refill)
			key := fmt.Sprintf("{name}:bucket:%d", p.Interval.Milliseconds())
			count := make(map[string]int)
			for step := range steps {
				tokens := 1 + random.Int64N(3)
				if random.IntN(12) == 0 {
					tokens = 2 * p.Capacity
				}
				s.Now = s.Now.Add(time.Second * time.Duration(random.Int64N(int64(token/time.Second)*tokens)))
				n := 1 + random.Int64N(1+random.Int64N(p.Capacity))
				where := fmt.Sprintf("step %d, %d permits", step, n)
				if random.IntN(10) < 7 || theirs.TokensAt(s.Now) < -float64(5*p.Capacity) {
					got := redistest.Result(t, ours.Take, n)
					require.Equal(t, theirs.AllowN(s.Now, int(n)), got.Allowed, where)
					count[fmt.Sprintf("allowed %t", got.Allowed)]++
				} else {
					theirs.ReserveN(s.Now, int(n))
					require.NoError(t, redistest.Err(ours.Charge(t.Context(), n)))
					count["charged"]++
				}
				s.Persist(t, key)
				seen := redistest.Peek(t, ours)
				left := theirs.TokensAt(s.Now)
				require.EqualValues(t, max(0, math.Floor(left)), seen[0].Remaining, where)
				require.Equal(t, time.Duration((float64(p.Capacity)-left)*float64(token)), seen[0].ResetAfter, where)
			}
			t.Log(count)
			for _, kind := range []string{"allowed true", "allowed false", "charged"} {
				assert.Greater(t, count[kind], steps/100, kind)
			}
		})
	}
}
