package limit

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// threeDenials is a limiter of a permit a minute, whose third denial within a minute begins a penalty.
func threeDenials(f *clocked) *Limiter {
	return New(f.client, "name", FixedWindow{1, time.Minute, false},
		Penalty{Denials: 3, Within: time.Minute, For: 10 * time.Minute})
}

// TestPenalty_TooManyDenials_DenyEverything: by all processes, for its time and no longer.
func TestPenalty_TooManyDenials_DenyEverything(t *testing.T) {
	f := newClocked(t, rratelimiter.WithDenialCache(time.Hour), rratelimiter.WithPrefetch(time.Second))
	f.set(begin - begin%1000)
	clock := rratelimiter.WithClock(func() time.Time { return time.UnixMicro(f.now) })
	l, other := threeDenials(f), threeDenials(&clocked{client: rratelimiter.New(f.connect(), clock)})
	take := func(l *Limiter) rratelimiter.Decision { return redistest.Result(t, l.Take, 1) }
	require.True(t, take(l).Allowed)
	assert.Equal(t, []string{"{name}:window:60000"}, f.redis.Keys(), "a grant writes nothing of it")
	const minute = time.Minute
	for range 2 {
		assert.Equal(t, rratelimiter.Decision{Limit: 1, RetryAfter: minute, ResetAfter: minute}, take(l))
	}
	assert.Equal(t, rratelimiter.Decision{Limit: 1, RetryAfter: 10 * minute, ResetAfter: 10 * minute}, take(other))
	f.advance(9 * minute)
	assert.Equal(t, rratelimiter.Decision{Limit: 1, RetryAfter: minute, ResetAfter: minute}, take(l))
	for _, l := range []*Limiter{l, other} {
		each := redistest.Result(t, l.TakeEach, 1)
		assert.True(t, each[0].Allowed, "the window is over")
		assert.Equal(t, rratelimiter.Decision{RetryAfter: minute, ResetAfter: minute}, each[1])
		assert.Equal(t, each, redistest.Peek(t, l))
	}
	f.advance(minute)
	assert.Empty(t, f.redis.Keys())
	assert.True(t, take(l).Allowed)
	assert.False(t, take(l).Allowed, "and the count begins again")
}

// TestPenalty_RenewOfAShorterOne_KeepsTheRest: two versions of a program share a name.
func TestPenalty_RenewOfAShorterOne_KeepsTheRest(t *testing.T) {
	f := newClocked(t)
	f.set(begin - begin%1000)
	window := FixedWindow{1, time.Hour, false}
	long := New(f.client, "name", window, Penalty{1, time.Minute, 10 * time.Minute, true})
	short := New(f.client, "name", window, Penalty{1, time.Minute, time.Minute, true})
	f.take(long, 1)
	require.Equal(t, 10*time.Minute, redistest.Result(t, long.TakeEach, 1)[1].RetryAfter)
	f.advance(time.Minute)
	assert.Equal(t, 9*time.Minute, redistest.Result(t, short.TakeEach, 1)[1].RetryAfter)
	assert.Equal(t, 10*time.Minute, redistest.Result(t, long.TakeEach, 1)[1].RetryAfter)
}

// TestPenalty_Ends_ByResetOrAPauseOfZero: so does the count.
func TestPenalty_Ends_ByResetOrAPauseOfZero(t *testing.T) {
	f := newClocked(t)
	l := threeDenials(f)
	for name, end := range map[string]func() error{
		"reset": func() error { return l.Reset(t.Context()) },
		"pause": func() error { return l.Pause(t.Context(), 0) },
	} {
		for _, denials := range []int{2, 3} {
			require.NoError(t, l.Reset(t.Context()))
			for range denials + 1 {
				redistest.Result(t, l.TryAcquire, 1)
			}
			require.True(t, f.redis.Exists("{name}:penalty"), name)
			require.NoError(t, end())
			assert.False(t, f.redis.Exists("{name}:penalty"), name)
		}
	}
	assert.ErrorIs(t, l.Pause(t.Context(), time.Second), ErrNotPausable)
}

// TestPenalty_KeyWithoutExpiry_EndsInTime: another program has left a penalty that has no end.
func TestPenalty_KeyWithoutExpiry_EndsInTime(t *testing.T) {
	calls := map[string]func(t *testing.T, l *Limiter){
		"TryAcquire": func(t *testing.T, l *Limiter) { require.False(t, redistest.Result(t, l.TryAcquire, 1)) },
		"Take": func(t *testing.T, l *Limiter) {
			require.Equal(t, 10*time.Minute, redistest.Result(t, l.Take, 1).RetryAfter)
		},
		"TryAcquireWithin": func(t *testing.T, l *Limiter) { require.False(t, tryWithin(t, l, 1, time.Minute)) },
	}
	for name, call := range calls {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := New(f.client, "name", FixedWindow{9, time.Minute, false}, Penalty{3, time.Minute, 10 * time.Minute, false})
			require.NoError(t, f.Redis.Set("{name}:penalty", "0"))
			for range 2 {
				assert.Equal(t, 10*time.Minute, redistest.Peek(t, l)[1].RetryAfter, "Peek changes nothing")
			}
			call(t, l)
			require.Equal(t, 10*time.Minute, f.Redis.TTL("{name}:penalty"))
			time.Sleep(10*time.Minute - time.Millisecond)
			require.False(t, redistest.Result(t, l.TryAcquire, 1))
			time.Sleep(time.Millisecond)
			assert.True(t, redistest.Result(t, l.TryAcquire, 1))
		})
	}
}

// TestPenalty_OtherCalls_AreNotCounted: waits, calls for more than can be granted, and changes.
func TestPenalty_OtherCalls_AreNotCounted(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(f.client, "name", FixedWindow{1, 5 * time.Second, false}, Penalty{1, time.Minute, time.Minute, true})
		ctx := t.Context()
		require.True(t, redistest.Result(t, l.TryAcquire, 1))
		require.NoError(t, l.Acquire(ctx, 1))
		assert.False(t, tryWithin(t, l, 1, time.Second))
		assert.ErrorIs(t, redistest.Err(l.TryAcquire(ctx, 2)), rratelimiter.ErrPermitsExceedRate)
		require.NoError(t, redistest.Err(l.Charge(ctx, 1)))
		redistest.Peek(t, l)
		require.NoError(t, l.Release(ctx, 1))
		require.False(t, f.Redis.Exists("{name}:penalty"))

		granted, _ := takeUpTo(t, l, 5)
		require.Zero(t, granted)
		require.True(t, f.Redis.Exists("{name}:penalty"))
		begin := time.Now()
		require.NoError(t, l.Acquire(ctx, 1), "a wait does not prolong the penalty")
		assert.Equal(t, time.Minute, time.Since(begin).Round(time.Millisecond))
	})
}

// TestPenalty_Join_CountsDenialsOfItsName: or of all if it is alone, but never those of a Pause.
func TestPenalty_Join_CountsDenialsOfItsName(t *testing.T) {
	penalty := Penalty{Denials: 1, Within: time.Minute, For: 10 * time.Minute}
	shared := func(f *clocked) *rratelimiter.Limiter {
		return f.client.Limiter("{x}:shared", rratelimiter.InitialRate(rratelimiter.Rate{Permits: 1, Interval: time.Minute}))
	}
	smooth := Smooth{Permits: 1, Interval: time.Minute}
	for name, test := range map[string]struct {
		open    func(f *clocked) *Limiter
		counted bool
	}{
		"own": {func(f *clocked) *Limiter {
			return Join(New(f.client, "{x}:all", FixedWindow{9, time.Minute, false}),
				New(f.client, "{x}:own", FixedWindow{1, time.Minute, false}, penalty))
		}, true},
		"other": {func(f *clocked) *Limiter {
			return Join(New(f.client, "{x}:all", FixedWindow{1, time.Minute, false}),
				New(f.client, "{x}:own", FixedWindow{9, time.Minute, false}, penalty))
		}, false},
		"own smooth": {func(f *clocked) *Limiter {
			return Join(New(f.client, "{x}:own", smooth, penalty), New(f.client, "{x}:all", FixedWindow{9, time.Minute, false}))
		}, true},
		"other smooth": {func(f *clocked) *Limiter {
			return Join(New(f.client, "{x}:own", FixedWindow{9, time.Minute, false}, penalty), New(f.client, "{x}:all", smooth))
		}, false},
		"alone": {func(f *clocked) *Limiter {
			return Join(shared(f), New(f.client, "{x}:own", penalty))
		}, true},
		"pause": {func(f *clocked) *Limiter {
			l := New(f.client, "{x}:own", FixedWindow{9, time.Minute, false}, penalty, Pause{time.Hour})
			require.NoError(f, l.Pause(f.Context(), time.Hour))
			return l
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newClocked(t)
			l := test.open(f)
			redistest.Result(t, l.TryAcquire, 1)
			require.False(t, redistest.Result(t, l.TryAcquire, 1))
			assert.Equal(t, test.counted, f.redis.Exists("{x}:own:penalty") || f.redis.Exists("{x}:own::penalty"))
		})
	}
}

// TestPenalty_SharedCall_CountsEachDenial of callers that share a call.
func TestPenalty_SharedCall_CountsEachDenial(t *testing.T) {
	for name, p := range map[string]Policy{
		"window": FixedWindow{3, time.Hour, false}, "smooth": Smooth{Permits: 3, Interval: time.Hour, Burst: time.Hour},
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			f.Latency.Store(int64(time.Millisecond))
			l := New(f.client, "name", p, Penalty{Denials: 1000, Within: time.Hour, For: time.Hour})
			var calls sync.WaitGroup
			granted := make(chan bool, 50)
			for range cap(granted) {
				calls.Go(func() { granted <- redistest.Result(t, l.TryAcquire, 1) })
			}
			calls.Wait()
			close(granted)
			denied := 0
			for ok := range granted {
				if !ok {
					denied++
				}
			}
			require.Positive(t, denied)
			text, err := f.Redis.Get("{name}:penalty")
			require.NoError(t, err)
			assert.Equal(t, fmt.Sprint(denied), text)
		})
	}
}

// TestPenalty_RandomCalls_MatchTheModel: beside each kind of policy, with all fields of a Decision.
func TestPenalty_RandomCalls_MatchTheModel(t *testing.T) {
	t.Parallel()
	for i, one := range comparedPolicies {
		p := withPenalty{one, Penalty{Denials: 1 + int64(i%4), Within: 3 * time.Second, For: 2 * time.Second,
			Renew: i%2 == 0}}
		t.Run(fmt.Sprintf("%T%+v", p.Policy, p.Policy), func(t *testing.T) {
			f := newClocked(t, rratelimiter.WithDenialCache(1<<62))
			l := New(f.client, "name", p.Policy, p.penalty)
			sequence(f, l, p, rand.New(rand.NewPCG(1, 2)), steps)
		})
	}
}
