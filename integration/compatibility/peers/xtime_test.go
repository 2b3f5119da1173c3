package peers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/rratelimiter/rratelimiter/integration/tools/clocked"
	"github.com/rratelimiter/rratelimiter/limit"
)

// reserved is one reservation of both libraries.
type reserved struct {
	ours    *limit.Reservation
	theirs  *rate.Reservation
	permits int64
	act     time.Time
}

// AllowN, ReserveN and CancelAt, with rates that a float64 holds exactly. x/time/rate counts in
// float64, so other rates differ by a rounding.
//
// Cancel differs after a caller has cancelled between others, so that there are free tokens while
// others wait:
//   - "forgotten": x/time/rate takes a call granted at once for the last reservation. Waiting
//     reservations can then be refunded completely, although others wait behind them. Here they
//     cannot.
//   - "in the free place": x/time/rate tells by their times what was reserved later, and refunds too
//     much if a later reservation has taken a cancelled place. Here reservations are counted in order.
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
			var waiting []reserved
			var last time.Time // when the newest reservation acts, as x/time/rate has it
			blind := false     // Cancel is not compared while callers wait
			count := make(map[string]int)
			for step := range 3 * steps { // a cancel in the midst of others is rare
				tokens := 1 + random.Int64N(3)
				if random.IntN(12) == 0 {
					tokens = 2 * p.Capacity
				}
				s.Now = s.Now.Add(time.Second * time.Duration(random.Int64N(int64(token/time.Second)*tokens)))
				waiting = slices.DeleteFunc(waiting, func(r reserved) bool { return !r.act.After(s.Now) })
				blind = blind && len(waiting) > 0
				n := 1 + random.Int64N(1+random.Int64N(p.Capacity))
				where := fmt.Sprintf("step %d, %d permits", step, n)
				switch kind := random.IntN(10); {
				case kind < 4:
					got, err := ours.Take(t.Context(), n)
					require.NoError(t, err)
					require.Equal(t, theirs.AllowN(s.Now, int(n)), got.Allowed, where)
					if got.Allowed {
						count["allowed"]++
						last = s.Now
						if len(waiting) > 0 {
							count["forgotten"]++
							blind = true
						}
					} else {
						count["refused"]++
					}
				case kind < 8 && len(waiting) < 12:
					r := reserved{theirs: theirs.ReserveN(s.Now, int(n)), permits: n}
					delay := r.theirs.DelayFrom(s.Now)
					r.act = s.Now.Add(delay)
					var err error
					r.ours, err = ours.Reserve(t.Context(), n)
					require.NoError(t, err)
					// It shrinks from the reply on; the next moment that could be is a second away.
					require.Equal(t, delay, (r.ours.Delay() + time.Second - 1).Truncate(time.Second), where)
					if delay > 0 {
						count["reserved"]++
						if len(waiting) > 0 && r.act.Sub(last) < time.Duration(n)*token {
							count["in the free place"]++
							blind = true
						}
						waiting = append(waiting, r)
					} else if count["at once"]++; len(waiting) > 0 {
						count["forgotten"]++
						blind = true
					}
					last = r.act
				case kind >= 8 && len(waiting) > 0 && !blind:
					which := max(random.IntN(len(waiting)), random.IntN(len(waiting)))
					r := waiting[which]
					waiting = slices.Delete(waiting, which, which+1)
					if r.act.Equal(last) {
						count["cancelled the last"]++
						if last = r.act.Add(-time.Duration(r.permits) * token); !last.After(s.Now) {
							last, blind = s.Now, len(waiting) > 0
						}
					} else {
						count["cancelled in the midst"]++
					}
					r.theirs.CancelAt(s.Now)
					require.NoError(t, r.ours.Cancel(t.Context()))
				}
				persist(t, s, key)
				seen, err := ours.Peek(t.Context())
				require.NoError(t, err)
				left := theirs.TokensAt(s.Now)
				require.EqualValues(t, max(0, math.Floor(left)), seen[0].Remaining, where)
				require.Equal(t, time.Duration((float64(p.Capacity)-left)*float64(token)), seen[0].ResetAfter, where)
			}
			t.Log(count)
			for _, kind := range []string{"allowed", "refused", "reserved", "at once", "cancelled the last",
				"cancelled in the midst"} {
				assert.Greater(t, count[kind], steps/1000, kind)
			}
		})
	}
}
