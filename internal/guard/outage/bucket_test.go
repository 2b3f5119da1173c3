package outage

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redistest/fake"
	"github.com/rratelimiter/rratelimiter/limit"
)

// A caller asks at random times, or for each permit in the nanosecond in which it returns.
func TestShape_AnyInterval_GrantsTheShare(t *testing.T) {
	for _, c := range []struct {
		permits int64
		share   float64
		burst   int64
		most    int
	}{
		{10, 1, 5, 10}, {10, 0.5, 3, 5}, {10, 0.1, 1, 1}, {10, 0.25, 1, 2}, {3, 1, 2, 3}, {1, 1, 1, 1}, {100, 0.29, 15, 29},
		{9, 0.1, 0, 0}, {1000, 0.7, 350, 700},
	} {
		t.Run(fmt.Sprintf("%v of %d", c.share, c.permits), func(t *testing.T) {
			s := policyShape(t, limit.SlidingLog{Permits: c.permits, Interval: time.Second}, c.share)
			assert.EqualValues(t, c.most, s.limit)
			assert.Equal(t, c.burst, s.decide(bucket{}, 1, 1).Remaining)
			assert.Equal(t, c.most, busiest(t, s, func() int64 { return 0 }))
			for seed := range uint64(10) {
				random := rand.New(rand.NewPCG(seed, 0))
				pause := func() int64 { return 1 + random.Int64N(int64(time.Second)/(1+random.Int64N(4*c.permits))) }
				assert.LessOrEqual(t, busiest(t, s, pause), c.most)
			}
		})
	}
}

// busiest returns the most grants in any second. The caller pauses after each request, or without a
// pause asks again at the stated time.
func busiest(t *testing.T, s shape, pause func() int64) (most int) {
	var granted []int64
	full, begin, now := int64(0), 0, int64(1)
	for range 5_000 {
		if d := s.decide(bucket{full: full}, now, 1); d.Allowed {
			full = s.fullAfter(full, now, 1)
			granted = append(granted, now)
			for granted[begin] <= now-int64(time.Second) {
				begin++
			}
			most = max(most, len(granted)-begin)
			now += pause()
		} else {
			next := now + int64(d.RetryAfter)
			if s.capacity > 0 {
				b := bucket{full: full}
				require.True(t, next > now && s.decide(b, next, 1).Allowed && !s.decide(b, next-1, 1).Allowed,
					"a permit returns after %v, not before", d.RetryAfter)
			}
			if after := pause(); after > 0 {
				next = now + after
			}
			now = next
		}
	}
	return most
}

func TestShapeOf_Policies_AreBuckets(t *testing.T) {
	for _, c := range []struct {
		policy limit.Policy
		share  float64
		want   shape
	}{
		{limit.TokenBucket{Capacity: 20, Refill: 10, Interval: time.Second}, 0.5,
			shape{limit: 10, capacity: 10, period: 200 * time.Millisecond}},
		{limit.LeakyBucket{Capacity: 20, Leak: 10, Interval: time.Second}, 0.1,
			shape{limit: 2, capacity: 2, period: time.Second}},
		{limit.TokenBucket{Capacity: 5, Refill: 5, Interval: time.Second}, 0.1,
			shape{limit: 0, capacity: 0, period: 2 * time.Second}},
		{limit.Smooth{Permits: 10, Interval: time.Second}, 0.5,
			shape{limit: 5, capacity: 5, period: 200 * time.Millisecond, owes: true}},
		{limit.Smooth{Permits: 1, Interval: time.Hour}, 0.5, shape{limit: 0, capacity: 1, period: 2 * time.Hour, owes: true}},
		{limit.Calendar{Permits: 2, Unit: limit.Day}, 0.5, shape{limit: 1, capacity: 1, period: 25 * time.Hour}},
		{limit.Calendar{Permits: 1, Unit: limit.Year}, 1, shape{limit: 1, capacity: 1, period: (366*24 + 1) * time.Hour}},
		{limit.FixedWindow{Permits: 1 << 53, Interval: time.Millisecond}, 1,
			shape{limit: 1 << 53, capacity: 1 << 52, period: 1}},
	} {
		assert.Equal(t, c.want, policyShape(t, c.policy, c.share), "%v of %+v", c.share, c.policy)
	}
}

// Smooth grants more than it holds, and later callers wait for it.
func TestShape_Smooth_LendsPermits(t *testing.T) {
	s := policyShape(t, limit.Smooth{Permits: 10, Interval: time.Second}, 0.5)
	full := int64(0)
	require.True(t, s.decide(bucket{full: full}, 1, 20).Allowed)
	full = s.fullAfter(full, 1, 20)
	assert.Equal(t, 3200*time.Millisecond, s.decide(bucket{full: full}, 1, 1).RetryAfter,
		"15 that it owes and one, 5 a second")
}

func policyShape(t *testing.T, p limit.Policy, share float64) shape {
	d, ok := policy.Of(p)
	require.True(t, ok)
	return shapeOf(d, share)
}

// All policies grant, or none takes anything.
func TestBuckets_SeveralPolicies_GrantTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := buckets{clock: clock{time.Now()}}
		l := &fake.Limiter{Called: "two", Of: []limit.Policy{
			limit.FixedWindow{Permits: 4, Interval: time.Second}, limit.FixedWindow{Permits: 6, Interval: time.Minute},
		}}
		take := func() Answer {
			o, r, ok := b.decide(l, 1, 0.5)
			require.True(t, ok)
			return Answer{Outcome: o, Receipt: r}
		}
		a := take()
		assert.Equal(t, limit.Acquired, a.Result)
		assert.EqualValues(t, 2, a.Each[0].Limit)
		assert.EqualValues(t, 1, a.Each[1].Remaining)
		a = take()
		assert.Equal(t, limit.Rejected, a.Result)
		assert.False(t, a.Each[0].Allowed)
		assert.True(t, a.Each[1].Allowed)
		assert.Equal(t, 500*time.Millisecond, a.Decision.RetryAfter)
		time.Sleep(500 * time.Millisecond)
		second := take()
		assert.Equal(t, limit.Acquired, second.Result, "the denial has taken nothing of the second")
		time.Sleep(500 * time.Millisecond)
		a = take()
		assert.Equal(t, limit.Rejected, a.Result)
		assert.True(t, a.Each[0].Allowed)
		assert.False(t, a.Each[1].Allowed)

		second.Receipt.Local(-1)
		assert.Equal(t, limit.Acquired, take().Result, "what came back")
		second.Receipt.Local(10)
		time.Sleep(time.Minute)
		assert.Equal(t, limit.Rejected, take().Result, "what is owed")
	})
}

// A deployment has changed the lease.
func TestBuckets_ShorterLease_EndsBeforeLongerOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := buckets{clock: clock{time.Now()}}
		take := func(lease time.Duration) limit.Outcome {
			l := &fake.Limiter{Called: "one", Of: []limit.Policy{limit.InFlight{Permits: 2, Lease: lease}}}
			o, _, ok := b.decide(l, 1, 1)
			require.True(t, ok)
			return o
		}
		assert.Equal(t, limit.Acquired, take(time.Hour).Result)
		assert.Equal(t, limit.Acquired, take(time.Second).Result)
		assert.Equal(t, time.Hour, take(time.Second).Decision.ResetAfter)
		time.Sleep(time.Second)
		assert.Equal(t, limit.Acquired, take(time.Second).Result, "the second lease has ended")
	})
}

// Full buckets are deleted.
func TestBuckets_ManyNames_AreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := buckets{clock: clock{time.Now()}}
		policies := []limit.Policy{limit.FixedWindow{Permits: 10, Interval: time.Minute}}
		take := func(name string) bool {
			o, _, ok := b.decide(&fake.Limiter{Called: name, Of: policies}, 1, 0.5)
			return ok && o.Result == limit.Acquired
		}
		for i := range maxBuckets {
			require.True(t, take(fmt.Sprint(i)))
		}
		assert.False(t, take("one more"))
		assert.True(t, take("0"), "those that are there go on")
		b.sweepIfDue()
		assert.Len(t, b.all, maxBuckets)
		time.Sleep(time.Minute)
		assert.True(t, take("one more"))
		assert.Len(t, b.all, 1)
		time.Sleep(time.Minute)
		b.sweepIfDue()
		assert.Nil(t, b.all)
		assert.False(t, take(""), "a limiter without a name")
	})
}

// A grant has no RetryAfter, also one of permits that the bucket owes.
func TestBuckets_GrantOnCredit_IsAllowed(t *testing.T) {
	b := buckets{clock: clock{time.Now()}}
	l := &fake.Limiter{Called: "smooth", Of: []limit.Policy{limit.Smooth{Permits: 10, Interval: time.Second}}}
	o, _, ok := b.decide(l, 20, 0.5)
	require.True(t, ok)
	assert.Equal(t, limit.Acquired, o.Result)
	assert.True(t, o.Decision.Allowed)
	assert.Zero(t, o.Decision.RetryAfter)
}
