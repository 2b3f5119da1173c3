package peers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
	"golang.org/x/time/rate"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/clocked"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// twoClients connects to one Redis in memory, whose clock the test sets.
func twoClients(t *testing.T) (*miniredis.Miniredis, *rratelimiter.Client, *redis.Client) {
	server := miniredis.RunT(t)
	ours, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true,
		DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(ours.Close)
	theirs := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = theirs.Close() })
	return server, rratelimiter.New(ours, rratelimiter.WithServerTime()), theirs
}

// TestTokenBucket_RedisRate_MatchesReplies compares AllowN. Both use the clock of the server.
// redis_rate counts in float64, so other rates differ by a rounding.
func TestTokenBucket_RedisRate_MatchesReplies(t *testing.T) {
	for _, theirs := range []redis_rate.Limit{
		{Rate: 8, Burst: 20, Period: time.Second}, redis_rate.PerMinute(15), redis_rate.PerHour(100),
	} {
		t.Run(theirs.String(), func(t *testing.T) {
			server, client, conn := twoClients(t)
			peer := redis_rate.NewLimiter(conn)
			ours := limit.New(client, "name", limit.TokenBucket{Capacity: int64(theirs.Burst), Refill: int64(theirs.Rate),
				Interval: theirs.Period})
			random, now := rand.New(rand.NewPCG(7, 8)), time.UnixMicro(1_763_740_123_456_789)
			token := theirs.Period / time.Duration(theirs.Rate)
			count := make(map[bool]int)
			for step := range steps {
				now = now.Add(time.Duration(random.Int64N(4 * int64(token))).Truncate(time.Microsecond))
				server.SetTime(now)
				n := 1 + random.IntN(1+random.IntN(theirs.Burst))
				want, err := peer.AllowN(t.Context(), "name", theirs, n)
				require.NoError(t, err)
				got := redistest.Result(t, ours.Take, int64(n))
				require.Equal(t, want.Allowed > 0, got.Allowed, "step %d, %d permits", step, n)
				if got.Allowed {
					require.EqualValues(t, want.Remaining, got.Remaining, "step %d", step)
				} else {
					require.InDelta(t, want.RetryAfter, got.RetryAfter, float64(10*time.Microsecond), "step %d", step)
				}
				require.InDelta(t, want.ResetAfter, got.ResetAfter, float64(10*time.Microsecond), "step %d", step)
				count[got.Allowed]++
			}
			t.Log(count)
			assert.Greater(t, count[true], steps/20)
			assert.Greater(t, count[false], steps/20)

			large, err := peer.AllowN(t.Context(), "other", theirs, theirs.Burst+1)
			require.NoError(t, err)
			assert.Zero(t, large.Allowed)
			assert.ErrorIs(t, redistest.Err(ours.Take(t.Context(), int64(theirs.Burst)+1)), rratelimiter.ErrPermitsExceedRate)
			require.NoError(t, redistest.Err(peer.AllowN(t.Context(), "other", theirs, 0)))
			assert.ErrorIs(t, redistest.Err(ours.Take(t.Context(), 0)), rratelimiter.ErrInvalidPermits)
		})
	}
}

// TestFixedWindow_Ulule_MatchesReplies compares Get, one permit at a time: ulule counts denied requests
// too. Its window lives as long as its key.
func TestFixedWindow_Ulule_MatchesReplies(t *testing.T) {
	server, client, conn := twoClients(t)
	store, err := ululeredis.NewStore(conn)
	require.NoError(t, err)
	peer := limiter.New(store, limiter.Rate{Limit: 10, Period: time.Second})
	ours := limit.New(client, "name", limit.FixedWindow{Permits: 10, Interval: time.Second})
	random, now := rand.New(rand.NewPCG(9, 10)), time.UnixMilli(1_763_740_123_456)
	count := make(map[bool]int)
	for step := range steps {
		pause := time.Duration(random.Int64N(150)) * time.Millisecond
		now = now.Add(pause)
		server.FastForward(pause)
		server.SetTime(now)
		want, err := peer.Get(t.Context(), "name")
		require.NoError(t, err)
		got := redistest.Result(t, ours.Take, 1)
		require.Equal(t, !want.Reached, got.Allowed, "step %d", step)
		require.Equal(t, want.Remaining, got.Remaining, "step %d", step)
		count[got.Allowed]++
	}
	t.Log(count)
	assert.Greater(t, count[false], steps/20)

	server.FastForward(time.Second)
	server.SetTime(now.Add(time.Second))
	for _, row := range []struct {
		permits       int64
		theirs, wants bool
	}{{8, true, true}, {3, false, false}, {2, false, true}} {
		want, err := peer.Increment(t.Context(), "name", row.permits)
		require.NoError(t, err)
		assert.Equal(t, row.theirs, !want.Reached, "the denied three are counted")
		assert.Equal(t, row.wants, redistest.Result(t, ours.TryAcquire, row.permits))
	}
}

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
