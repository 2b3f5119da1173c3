package limit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestJoin_RedisComesAfterConnect_IsValid: of names that have different slots on a cluster. Whether Redis is
// one is unknown until it comes.
func TestJoin_RedisComesAfterConnect_IsValid(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		redis, address, come := redistest.Away(t)
		conn, err := rratelimiter.Connect(rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true})
		require.NoError(t, err)
		t.Cleanup(conn.Close)
		client := rratelimiter.New(conn)
		join := Join(New(client, "a", FixedWindow{Permits: 5, Interval: time.Hour}), New(client, "b", FixedWindow{Permits: 5, Interval: time.Hour}))
		_, err = join.Take(t.Context(), 1)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)

		come()
		redis.Server().SetPreHook(func(peer *server.Peer, command string, _ ...string) bool {
			single := command == "CLUSTER" && !cluster // that of miniredis is always one
			if single {
				peer.WriteError("ERR This instance has cluster support disabled")
			}
			return single
		})
		require.Eventually(t, func() bool {
			_, err = join.Take(t.Context(), 1)
			return !errors.Is(err, syscall.ECONNREFUSED)
		}, time.Minute, 10*time.Millisecond)
		if cluster {
			require.ErrorIs(t, err, rratelimiter.ErrCrossSlot)
			require.ErrorContains(t, err, "use one non-empty hash tag in all names")
			require.NotContains(t, err.Error(), "without braces", "which these names are")
			require.ErrorIs(t, redistest.Err(client.Limiter("a}b").Take(t.Context(), 1)), rratelimiter.ErrCrossSlot)
		} else {
			require.NoError(t, err)
		}
	}
}

// TestJoin_OneMemberDenies_NothingIsTaken: one member is a limiter of Redisson's layout.
func TestJoin_OneMemberDenies_NothingIsTaken(t *testing.T) {
	f := newClocked(t)
	ctx := t.Context()
	shared := f.client.Limiter("{tenant}:shared")
	join := Join(New(f.client, "{tenant}:second", FixedWindow{5, time.Second, false}), shared,
		New(f.client, "{tenant}:day", TokenBucket{20, 1, time.Hour}))
	err := redistest.Err(join.Take(ctx, 1))
	require.ErrorIs(t, err, rratelimiter.ErrNotInitialized)
	require.ErrorContains(t, err, "{tenant}:shared")
	assert.Empty(t, f.redis.Keys(), "nothing is taken of the others")

	require.NoError(t, shared.SetRate(ctx, rratelimiter.Rate{Permits: 8, Interval: time.Minute}))
	want := rratelimiter.Decision{Allowed: true, Limit: 5, ResetAfter: 5 * time.Hour}
	assert.Equal(t, want, redistest.Result(t, join.Take, 5))
	assert.EqualValues(t, 3, redistest.Available(t, shared))

	each := redistest.Result(t, join.TakeEach, 1)
	assert.Equal(t, []bool{false, true, true}, []bool{each[0].Allowed, each[1].Allowed, each[2].Allowed})
	f.advance(time.Second)
	each = redistest.Result(t, join.TakeEach, 4)
	assert.Equal(t,
		rratelimiter.Decision{Limit: 8, Remaining: 3, RetryAfter: 59 * time.Second, ResetAfter: 59 * time.Second}, each[1])
	assert.Equal(t, []bool{true, false, true}, []bool{each[0].Allowed, each[1].Allowed, each[2].Allowed})
	assert.True(t, redistest.Result(t, join.TryAcquire, 3))

	assert.Equal(t, []int64{2, 0, 12}, remainingOf(t, join))
	require.NoError(t, join.Release(ctx, 2))
	assert.Equal(t, []int64{4, 2, 14}, remainingOf(t, join))
	require.ErrorIs(t, redistest.Err(join.Take(ctx, 9)), rratelimiter.ErrPermitsExceedRate)
	require.ErrorIs(t, redistest.Err(Join(shared).Charge(ctx, 1)), ErrNotChargeable)
	require.NoError(t, join.Reset(ctx))
	assert.Equal(t, []string{"{tenant}:shared"}, f.redis.Keys())
	assert.EqualValues(t, 8, redistest.Available(t, shared))
	assert.Equal(t, "{tenant}:second + {tenant}:shared + {tenant}:day", join.Name())
}

// TestJoin_OneRedissonLimiter_BehavesAsThatLimiter: random calls have the same answers as those of
// the limiter of Redisson's layout alone, and leave the same state. A SlidingLog answers as both.
func TestJoin_OneRedissonLimiter_BehavesAsThatLimiter(t *testing.T) {
	t.Parallel()
	for _, rate := range []rratelimiter.Rate{
		{Permits: 10, Interval: time.Second}, {Permits: 10, Interval: time.Second, Type: rratelimiter.PerClient},
		{Permits: 3, Interval: 7 * time.Millisecond}, {Permits: 1000, Interval: time.Minute},
	} {
		t.Run(fmt.Sprintf("%+v", rate), func(t *testing.T) {
			f := newClocked(t)
			f.set(f.now - f.now%1000)
			ctx := t.Context()
			rate.KeepAlive = time.Hour
			alone, joined := f.client.Limiter("alone"), f.client.Limiter("joined")
			require.NoError(t, alone.SetRate(ctx, rate))
			require.NoError(t, joined.SetRate(ctx, rate))
			join, log := Join(joined), New(f.client, "log", SlidingLog{rate.Permits, rate.Interval})
			random := rand.New(rand.NewPCG(3, 4))
			granted, denied := 0, 0
			for step := range steps {
				if random.IntN(2) == 0 {
					f.advance(time.Duration(random.Int64N(int64(rate.Interval/time.Millisecond)*2/5+1)) * time.Millisecond)
				}
				n := 1 + random.Int64N(1+random.Int64N(rate.Permits+1))
				switch random.IntN(8) {
				case 0:
					require.NoError(t, alone.Release(ctx, n))
					require.NoError(t, join.Release(ctx, n))
					require.NoError(t, log.Release(ctx, n))
				case 1:
					f.redis.Del("{alone}:value")
					f.redis.Del("{joined}:value")
				default:
					want, _ := alone.Take(ctx, n)
					for _, like := range []Joinable{join, log} {
						got, err := like.Take(ctx, n)
						require.Equal(t, want, got, "step %d, %s", step, like.Name())
						exceeds := errors.Is(err, rratelimiter.ErrPermitsExceedRate)
						require.Equal(t, n > rate.Permits, exceeds, "step %d, %s: %v", step, like.Name(), err)
					}
					if want.Allowed {
						granted++
					} else {
						denied++
					}
				}
				require.Equal(t, redistest.Available(t, alone), redistest.Available(t, joined), "step %d", step)
				require.Equal(t, f.redis.TTL("alone"), f.redis.TTL("joined"), "step %d", step)
			}
			assert.Greater(t, granted, steps/10)
			assert.Greater(t, denied, steps/10)
		})
	}
}

// TestJoin_RedissonLimitersWithoutValues_CountsTheirGrants: a page in a call.
func TestJoin_RedissonLimitersWithoutValues_CountsTheirGrants(t *testing.T) {
	const grants = 1000
	withRedis(t, func(t *testing.T, f *fixture) {
		var members []Joinable
		for _, name := range []string{"{t}:a", "{t}:b", "{t}:c"} {
			l := f.client.Limiter(name)
			require.NoError(t, l.SetRate(t.Context(), rratelimiter.Rate{Permits: 2 * grants, Interval: time.Hour}))
			f.fillShared(name, grants)
			f.Redis.Del(name + ":value")
			members = append(members, l)
		}
		join := Join(members...)
		before := f.Scripts.Load()
		f.Latency.Store(int64(time.Millisecond))
		ctx := redistest.Timeout(t, time.Second)
		each, err := join.TakeEach(ctx, 1)
		require.NoError(t, err)
		for _, d := range each {
			assert.EqualValues(t, grants-1, d.Remaining)
		}
		assert.LessOrEqual(t, f.Scripts.Load()-before, int64(3*(grants/256+1)+1), "calls")
	})
}

// TestJoin_CountIsDue_DelaysNoCaller: drift, as a release in Java leaves it, is corrected in the background.
func TestJoin_CountIsDue_DelaysNoCaller(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.client.Limiter("{t}:shared")
		require.NoError(t, l.SetRate(t.Context(), rratelimiter.Rate{Permits: 10, Interval: time.Hour}))
		join := Join(l, New(f.client, "{t}:hour", FixedWindow{10, time.Hour, false}))
		require.True(t, redistest.Result(t, func(ctx context.Context, permits int64) (bool, error) {
			return join.TryAcquireWithin(ctx, permits, time.Minute) // Redis knows the script then
		}, 1))
		time.Sleep(40*time.Minute + 500*time.Millisecond) // the next count is due, and no ping of rueidis is in flight
		f.RequireNoError(f.Redis.Incr("{t}:shared:value", 1))
		f.Latency.Store(int64(100 * time.Millisecond))
		before := time.Now()
		ok, err := join.TryAcquireWithin(context.Background(), 1, 150*time.Millisecond)
		require.NoError(t, err)
		assert.True(t, ok)
		assert.Equal(t, 100*time.Millisecond, time.Since(before))
		require.NoError(t, f.client.Flush(t.Context()))
		f.RequireAvailable(l, 8)
	})
}

func TestJoin_InvalidMembers_IsRefusedUnsent(t *testing.T) {
	f, other := newClocked(t), newClocked(t)
	ctx := context.Background()
	window := FixedWindow{1, time.Second, false}
	good, redisson := New(f.client, "name", window), f.client.Limiter("name")
	unending := f.client.Limiter("other", rratelimiter.InitialRate(rratelimiter.Rate{Permits: 1}))
	many := make([]Joinable, policy.MaxJoined+1)
	for i := range many {
		many[i] = New(f.client, fmt.Sprint("name:", i), window)
	}
	for name, test := range map[string]struct {
		join *Limiter
		want error
	}{
		"nothing":                     {Join(), rratelimiter.ErrInvalidRate},
		"too many":                    {Join(many...), rratelimiter.ErrInvalidRate},
		"one twice":                   {Join(good, good), rratelimiter.ErrInvalidRate},
		"a limiter of Redisson twice": {Join(redisson, f.client.Limiter("name")), rratelimiter.ErrInvalidRate},
		"two of Redisson that share":  {Join(redisson, f.client.Limiter("{name}")), rratelimiter.ErrInvalidRate},
		"two that share a key": {Join(good, New(f.client, "name", FixedWindow{2, time.Second, false})),
			rratelimiter.ErrInvalidRate},
		"one that is invalid":       {Join(good, New(f.client, "name", TokenBucket{})), rratelimiter.ErrInvalidRate},
		"one without a name":        {Join(good, f.client.Limiter("")), rratelimiter.ErrInvalidName},
		"an invalid initial rate":   {Join(good, unending), rratelimiter.ErrInvalidRate},
		"of two clients":            {Join(good, New(other.client, "other", window)), rratelimiter.ErrInvalidOption},
		"embedded, twice":           {Join(good, struct{ Joinable }{good}), rratelimiter.ErrInvalidRate},
		"nil":                       {Join(good, nil), rratelimiter.ErrNoClient},
		"a nil limiter":             {Join(good, (*Limiter)(nil)), rratelimiter.ErrNoClient},
		"a nil limiter of Redisson": {Join(good, (*rratelimiter.Limiter)(nil)), rratelimiter.ErrNoClient},
		"the zero limiter":          {Join(new(Limiter), good), rratelimiter.ErrNoClient},
		"the zero one of Redisson":  {Join(new(rratelimiter.Limiter)), rratelimiter.ErrNoClient},
	} {
		assert.ErrorIs(t, redistest.Err(test.join.Take(ctx, 1)), test.want, name)
	}
	assert.Empty(t, f.redis.Keys())
	redistest.Result(t, Join(Join(good), New(f.client, "second", window)).Take, 1) // joins can be joined
	redistest.Result(t, Join(many[1:]...).Take, 1)                                 // as many as can be joined
}

// TestJoin_KeyOfAnotherType_IsNamedInTheError: the key is of a limiter of Redisson's layout.
func TestJoin_KeyOfAnotherType_IsNamedInTheError(t *testing.T) {
	for kind, own := range map[rratelimiter.RateType]bool{rratelimiter.Overall: false, rratelimiter.PerClient: true} {
		f := newClocked(t)
		shared := f.client.Limiter("{t}:shared")
		join := Join(New(f.client, "{t}:second", FixedWindow{5, time.Second, false}), shared)
		require.NoError(t, shared.SetRate(t.Context(), rratelimiter.Rate{Type: kind, Permits: 8, Interval: time.Minute}))
		for _, part := range []string{"value", "permits"} {
			redistest.Result(t, join.Take, 1)
			key := "{t}:shared:" + part
			if own {
				key += ":" + f.client.ID()
			}
			for err := errors.New("not pushed"); err != nil; { // the first Take counts in the background, and writes the key
				f.redis.Del(key)
				_, err = f.redis.Lpush(key, "x")
			}
			_, err := join.Take(t.Context(), 1)
			var state *rratelimiter.StateError
			require.ErrorAs(t, err, &state)
			assert.Equal(t, rratelimiter.StateError{Key: key, Value: "list"}, *state)
			f.redis.Del(key)
		}
	}
}

func TestJoin_InitialRates_EachCallSetsThoseThatAreMissingInOneMoreRoundTrip(t *testing.T) {
	calls := maps.Clone(takingCalls)
	calls["Peek"] = func(ctx context.Context, l *Limiter, _ int64) error { return redistest.Err(l.Peek(ctx)) }
	for name, call := range calls {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			c := f.client
			first := c.Limiter("{t}:first", rratelimiter.InitialRate(rratelimiter.Rate{Permits: 5, Interval: time.Hour}))
			second := c.Limiter("{t}:second", rratelimiter.InitialRate(rratelimiter.Rate{Permits: 7, Interval: time.Hour}))
			join := Join(New(c, "{t}:window", FixedWindow{10, time.Hour, false}), first, second)
			require.NoError(t, call(t.Context(), join, 1)) // the scripts are known from now on
			synctest.Wait()                                // and drift is counted

			for _, lost := range []string{"{t}:first", "{t}:second"} {
				f.Redis.Del(lost)
			}
			require.NoError(t, second.SetRate(t.Context(), rratelimiter.Rate{Permits: 6, Interval: time.Hour}))
			sent := f.Sent.Load()
			require.NoError(t, call(t.Context(), join, 1))
			assert.EqualValues(t, 2, f.Sent.Load()-sent, "the call and the one that sets the rates")
			assert.Equal(t, "5", f.Redis.HGet("{t}:first", "rate"))
			assert.Equal(t, "6", f.Redis.HGet("{t}:second", "rate"), "a rate in Redis counts")
		})
	}
}
