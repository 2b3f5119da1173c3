package outage

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// hourly returns a window of an hour. With a share of 1, half of it can be granted at once.
func hourly(permits int64) limit.Policy {
	return limit.FixedWindow{Permits: permits, Interval: time.Hour}
}

// outage runs a test with a guard of a share of 1 whose Redis is down.
func outage(t *testing.T, test func(client *rratelimiter.Client, ask func(Demand) Answer)) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		client := rratelimiter.New(f.Conn)
		f.Redis.SetError("LOADING")
		g := withMode(1, deadline, nil)
		test(client, func(q Demand) Answer {
			q.Permits = max(1, q.Permits)
			return g.Decide(t.Context(), q)
		})
		f.Redis.SetError("")
		time.Sleep(time.Minute)
	})
}

// TestLocal_JoinedMembers_EachHasOneShare: a member counts under its own name, whatever it is
// joined with.
func TestLocal_JoinedMembers_EachHasOneShare(t *testing.T) {
	outage(t, func(client *rratelimiter.Client, ask func(Demand) Answer) {
		rate := rratelimiter.Rate{Permits: 10, Interval: time.Hour}
		shared, granted := client.Limiter("shared", rratelimiter.InitialRate(rate)), 0
		for i := range 50 {
			own := limit.New(client, fmt.Sprint("user:", i), hourly(2))
			a := ask(Demand{Limiter: limit.Join(shared, own)})
			if require.True(t, a.Local); a.Result == limit.Acquired {
				granted++
			}
		}
		assert.Equal(t, 5, granted)
		assert.Equal(t, limit.Rejected, ask(Demand{Limiter: shared}).Result, "the same bucket without a join")
	})
}

// TestLocal_MemberWithoutPolicy_IsClosed: a limit of a member that is unknown cannot be kept.
func TestLocal_MemberWithoutPolicy_IsClosed(t *testing.T) {
	outage(t, func(client *rratelimiter.Client, ask func(Demand) Answer) {
		one, two := limit.New(client, "one", hourly(10)), limit.New(client, "two", hourly(10))
		unknown := limit.Join(one, client.Limiter("no initial rate"))
		assert.Equal(t, limit.FailedClosed, ask(Demand{Limiter: unknown}).Result)
		assert.Equal(t, limit.FailedClosed, ask(Demand{Limiter: limit.Join(one, one)}).Result, "the join is invalid")
		assert.Equal(t, limit.Acquired, ask(Demand{Limiter: limit.Join(one, two)}).Result)
	})
}

// TestLocal_Pause_GrantsAll: while Redis is down, no process learns of a pause or a penalty. The numbers are those
// of the policy beside it.
func TestLocal_Pause_GrantsAll(t *testing.T) {
	outage(t, func(client *rratelimiter.Client, ask func(Demand) Answer) {
		policies := []limit.Policy{
			limit.TokenBucket{Capacity: 300, Refill: 1, Interval: time.Hour}, limit.Pause{Most: time.Hour},
			limit.Penalty{Denials: 1, Within: time.Minute, For: time.Hour},
		}
		q := Demand{Limiter: limit.New(client, "name", policies...), Permits: 100}
		for left := int64(200); left >= 0; left -= 100 {
			a := ask(q)
			require.Equal(t, limit.Acquired, a.Result)
			assert.True(t, a.Local)
			assert.EqualValues(t, 300, a.Decision.Limit)
			assert.Equal(t, left, a.Decision.Remaining)
			assert.Zero(t, a.Each[1].Limit)
		}
		assert.Equal(t, limit.Rejected, ask(q).Result)
	})
}
