package rratelimiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/policymodel"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// TestLimiter_ContextEnds_CallReturns: even if Redis does not reply.
func TestLimiter_ContextEnds_CallReturns(t *testing.T) {
	for name := range everyCall(new(Limiter)) {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 10, Interval: time.Second})
			f.Latency.Store(int64(5 * time.Second))
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			assert.ErrorIs(t, everyCall(l)[name](ctx), context.DeadlineExceeded)
			assert.Equal(t, time.Second, time.Since(start))

			ctx, cancel = context.WithCancel(t.Context())
			defer time.AfterFunc(time.Second/2, cancel).Stop()
			assert.ErrorIs(t, everyCall(l)[name](ctx), context.Canceled)
			assert.Equal(t, time.Second*3/2, time.Since(start))
			f.Latency.Store(0)
			time.Sleep(time.Minute)
		})
	}
}

// TestLimiter_RequestAboveTheRate_ChangesNothing: as in Redisson, such a request removes no expired
// grant and keeps no limiter alive.
func TestLimiter_RequestAboveTheRate_ChangesNothing(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Minute, KeepAlive: time.Hour})
		unchanged := func() {
			t.Helper()
			time.Sleep(2 * time.Minute) // a grant has expired, and stays until the next one
			before, ttl := f.Redis.Dump(), f.Redis.TTL("limiter")
			for _, name := range []string{"TryAcquire", "Take", "TryAcquireWithin", "Acquire"} {
				require.ErrorIs(t, everyCallWith(l, 11, Rate{})[name](t.Context()), ErrPermitsExceedRate)
				require.Equal(t, before, f.Redis.Dump())
				require.Equal(t, ttl, f.Redis.TTL("limiter"))
			}
		}
		unchanged() // a fresh limiter has no value, and gets none
		f.RequireGranted(l, 7)
		unchanged()
	})
}

// TestLimiter_EveryCall_IsOneRoundTrip: once its script is loaded. After SCRIPT FLUSH or a restart
// it is one more, without an error.
func TestLimiter_EveryCall_IsOneRoundTrip(t *testing.T) {
	for name := range everyCall(new(Limiter)) {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 1000, Interval: time.Second})
			call := func(prepare func() error) int64 {
				require.NoError(t, l.SetRate(t.Context(), Rate{Permits: 1000, Interval: time.Second}))
				f.RequireGranted(l, 2)
				require.NoError(t, prepare())
				before := f.Sent.Load()
				require.NoError(t, everyCall(l)[name](t.Context()))
				return f.Sent.Load() - before
			}
			loaded := func() error { return nil }
			flush := func() error { return f.Conn.Do(t.Context(), f.Conn.B().ScriptFlush().Build()).Error() }
			call(loaded)
			flushed := int64(2)
			switch name {
			case "Config", "Exists", "RemainTimeToLive", "Touch", "SizeInMemory", "Unlink", "Delete":
				flushed = 1 // a command, no script
			}
			assert.EqualValues(t, 1, call(loaded), "round trips")
			assert.Equal(t, flushed, call(flush), "round trips after SCRIPT FLUSH")
		})
	}
}

func TestForecast_Leases_MayReturnEarlier(t *testing.T) {
	f := forecast{rate: 10, interval: time.Second}
	f.add(300, 1)
	f.add(400, -2)
	f.add(700, 1)
	for wanted, want := range []time.Duration{0, 300, 350, 350, 650} {
		assert.Equal(t, want*time.Millisecond, f.Earliest(0, int64(wanted)), "%d permits", wanted)
	}
}

// TestWithWaitJitter_Waiters_AskLater: by 3 ms and a random part, unless it is 0.
func TestWithWaitJitter_Waiters_AskLater(t *testing.T) {
	for _, test := range []struct {
		opts        []Option
		interval    time.Duration
		least, most time.Duration
	}{
		{nil, time.Second, 3 * time.Millisecond, 23 * time.Millisecond},
		{nil, 50 * time.Millisecond, 3 * time.Millisecond, 13 * time.Millisecond},
		{[]Option{WithWaitJitter(time.Hour)}, time.Second, 3 * time.Millisecond, 203 * time.Millisecond},
		{[]Option{WithWaitJitter(0)}, time.Second, 0, 0},
	} {
		withRedis(t, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 1, Interval: test.interval}, test.opts...)
			first, last := time.Hour, time.Duration(0)
			for range 15 {
				f.RequireGranted(l, 1)
				began := time.Now()
				require.NoError(t, l.Acquire(t.Context(), 1))
				late := time.Since(began) - test.interval
				first, last = min(first, late), max(last, late)
				time.Sleep(test.interval)
			}
			assert.GreaterOrEqual(t, first, test.least, "%v", test.interval)
			assert.LessOrEqual(t, last, test.most, "%v", test.interval)
			assert.GreaterOrEqual(t, last-first, (test.most-test.least)/3, "random")
		})
	}
}

// TestKeepAlive_CallersAskOrWait_LimiterStays: with a denial cache, or while all wait.
func TestKeepAlive_CallersAskOrWait_LimiterStays(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 1, Interval: 500 * time.Millisecond, KeepAlive: 500 * time.Millisecond},
			WithDenialCache(time.Hour))
		for range 20 {
			f.RequireNoError(l.TryAcquire(t.Context(), 1))
			time.Sleep(300 * time.Millisecond)
		}
		_, errs := redistest.Crowd(10, func(int) (any, error) { return nil, l.Acquire(t.Context(), 1) })
		assert.NoError(t, errors.Join(errs...))
	})
}

// TestRetryAfter_GrantOfAClockAhead_IsNoLease: it returns an interval after its date.
func TestRetryAfter_GrantOfAClockAhead_IsNoLease(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Hour})
		ahead := New(f.Conn, WithClock(func() time.Time { return time.Now().Add(5 * time.Millisecond) })).Limiter("limiter")
		f.RequireGranted(ahead, 10)
		assert.Equal(t, time.Hour+5*time.Millisecond, f.decision(l, 1).RetryAfter)
		granted, d, err := l.TakeUpTo(t.Context(), 3)
		require.NoError(t, err)
		assert.Zero(t, granted)
		assert.Equal(t, time.Hour+5*time.Millisecond, d.RetryAfter)
		o := &forecast{interval: time.Hour}
		assert.Equal(t, engine.Never, o.Renew())
	})
}

// TestLimiter_RandomCalls_MatchTheModel: with all fields of a Decision. Leased permits are taken
// until an interval after their lease, so a Client that leases may deny more, and promises no more.
func TestLimiter_RandomCalls_MatchTheModel(t *testing.T) {
	for _, rate := range []Rate{
		{Permits: 10, Interval: time.Second},
		{Permits: 100, Interval: 20 * time.Second},
		{Permits: 1000, Interval: time.Hour, Type: PerClient},
	} {
		for name, opts := range map[string][]Option{
			"plain":              nil,
			"denials remembered": {WithDenialCache(1 << 62)},
			"leased":             {WithLease(time.Second)},
			"both":               {WithLease(time.Second), WithDenialCache(1 << 62)},
		} {
			leases := name == "leased" || name == "both"
			runWithRedis(t, fmt.Sprintf("%d in %v, %s", rate.Permits, rate.Interval, name), func(t *testing.T, f *fixture) {
				for seed := range uint64(redistest.Deep(1, 4)) {
					f.Redis.FlushAll()
					f.randomCalls(f.limiter(rate, opts...), rate, rand.New(rand.NewPCG(1, seed)), leases)
				}
				time.Sleep(time.Minute)
			})
		}
	}
}

// randomCalls makes random calls of a limiter and compares their answers with the model's.
func (f *fixture) randomCalls(l *Limiter, rate Rate, random *rand.Rand, leases bool) {
	m := &policymodel.SlidingLog{Permits: rate.Permits, Interval: rate.Interval.Microseconds()}
	ctx := f.Context()
	var log []string
	for step := range redistest.Deep(80, 250) {
		switch now := time.Now().UnixMicro(); random.IntN(8) {
		case 0:
			time.Sleep(time.Duration(m.Wait(now, 1+random.Int64N(rate.Permits))) * time.Microsecond)
		case 1:
			time.Sleep(time.Duration(random.Int64N(1+rate.Interval.Milliseconds()/8)) * time.Millisecond)
		case 2, 3:
			time.Sleep(time.Duration(random.Int64N(20)) * time.Millisecond)
		}
		synctest.Wait() // leases that have ended are returned
		now := time.Now().UnixMicro()
		n := 1 + random.Int64N(1+random.Int64N(rate.Permits))
		if random.IntN(4) > 0 {
			n = 1 + n/20
		}
		var call string
		var got Decision
		var err error
		took, permits := int64(0), n // permits that it asks for
		switch random.IntN(12) {
		case 0:
			call, err = "Release", l.Release(ctx, n)
			m.Release(now, n)
		case 1:
			call, permits = "TakeUpTo", 1
			took, got, err = l.TakeUpTo(ctx, n)
			require.LessOrEqual(f, took, max(0, m.Free(now)), "%v %d: TakeUpTo %d", log[max(0, len(log)-5):], step, n)
			if !leases {
				require.Equal(f, min(n, max(0, m.Free(now))), took, "%v", log[max(0, len(log)-5):])
			}
		default:
			call = "Take"
			if got, err = l.Take(ctx, n); got.Allowed {
				took = n
			}
		}
		require.NoError(f, err)
		log = append(log, fmt.Sprintf("%d: at %d %s %d: %+v", step, now/1000, call, n, got))
		if call == "Release" {
			continue
		}
		want := Decision{Allowed: m.Wait(now, permits) == 0, Limit: rate.Permits}
		if want.RetryAfter = time.Duration(m.Wait(now, permits)) * time.Microsecond; took > 0 {
			require.True(f, policymodel.Take(m, now, took), "%v", log[max(0, len(log)-5):])
		}
		want.Remaining, want.ResetAfter = max(0, m.Free(now)), time.Duration(m.Reset(now))*time.Microsecond
		if !got.Allowed || leases {
			require.LessOrEqual(f, got.Remaining, want.Remaining, "%v", log[max(0, len(log)-5):])
			want.Remaining = got.Remaining // permits that have returned since do not count
		}
		if leases {
			require.GreaterOrEqual(f, got.ResetAfter, want.ResetAfter, "%v", log[max(0, len(log)-5):])
			want.Allowed, want.RetryAfter, want.ResetAfter = got.Allowed, got.RetryAfter, got.ResetAfter
		}
		require.Equal(f, want, got, "%v", log[max(0, len(log)-5):])
	}
}

// fixture is a Redis in memory inside a synctest.Test, with the helpers of this package's tests.
type fixture struct{ *redistest.Fixture }

// withRedis runs a test with a Redis in memory and a clock of its own. It fails if a goroutine
// remains.
func withRedis(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		// The scripts that take permits are loaded, so that each call is one round trip.
		none := New(f.Conn).Limiter("none")
		_, err := none.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, ErrNotInitialized)
		_, err = none.Take(t.Context(), 1)
		require.ErrorIs(t, err, ErrNotInitialized)
		test(t, &fixture{f})
	})
}

// runWithRedis runs a subtest with a Redis in memory.
func runWithRedis(t *testing.T, name string, test func(t *testing.T, f *fixture)) {
	t.Run(name, func(t *testing.T) { withRedis(t, test) })
}

// limiter opens a limiter and sets its rate.
func (f *fixture) limiter(rate Rate, opts ...Option) *Limiter {
	l := New(f.Conn, opts...).Limiter("limiter")
	require.NoError(f, l.SetRate(f.Context(), rate))
	return l
}

// decision takes permits and returns the numbers.
func (f *fixture) decision(l *Limiter, permits int64) Decision {
	f.Helper()
	d, err := l.Take(f.Context(), permits)
	require.NoError(f, err)
	return d
}

// configured returns the rate of a limiter.
func (f *fixture) configured(l *Limiter) Rate {
	f.Helper()
	rate, err := l.Config(f.Context())
	require.NoError(f, err)
	return rate
}

// everyCall lists every call of a limiter with valid arguments.
func everyCall(l *Limiter) map[string]func(context.Context) error {
	return everyCallWith(l, 1, Rate{Permits: 10, Interval: time.Second})
}

// everyCallWith lists every call of a limiter.
func everyCallWith(l *Limiter, permits int64, rate Rate) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"TrySetRate":   func(ctx context.Context) error { return redistest.Err(l.TrySetRate(ctx, rate)) },
		"SetRate":      func(ctx context.Context) error { return l.SetRate(ctx, rate) },
		"SetRate keep": func(ctx context.Context) error { return l.SetRate(ctx, rate, KeepState()) },
		"UpdateRate":   func(ctx context.Context) error { return redistest.Err(l.UpdateRate(ctx, rate)) },
		"Config":       func(ctx context.Context) error { return redistest.Err(l.Config(ctx)) },
		"TryAcquire":   func(ctx context.Context) error { return redistest.Err(l.TryAcquire(ctx, permits)) },
		"TryAcquireWithin": func(ctx context.Context) error {
			return redistest.Err(l.TryAcquireWithin(ctx, permits, time.Second))
		},
		"Acquire": func(ctx context.Context) error { return l.Acquire(ctx, permits) },
		"Take":    func(ctx context.Context) error { return redistest.Err(l.Take(ctx, permits)) },
		"TakeUpTo": func(ctx context.Context) error {
			_, _, err := l.TakeUpTo(ctx, permits)
			return err
		},
		"Release":          func(ctx context.Context) error { return l.Release(ctx, permits) },
		"AvailablePermits": func(ctx context.Context) error { return redistest.Err(l.AvailablePermits(ctx)) },
		"Exists":           func(ctx context.Context) error { return redistest.Err(l.Exists(ctx)) },
		"Expire":           func(ctx context.Context) error { return redistest.Err(l.Expire(ctx, time.Hour)) },
		"ExpireAt": func(ctx context.Context) error {
			return redistest.Err(l.ExpireAt(ctx, time.Now().Add(time.Hour)))
		},
		"ClearExpire":      func(ctx context.Context) error { return redistest.Err(l.ClearExpire(ctx)) },
		"RemainTimeToLive": func(ctx context.Context) error { return redistest.Err(l.RemainTimeToLive(ctx)) },
		"ExpireTime":       func(ctx context.Context) error { return redistest.Err(l.ExpireTime(ctx)) },
		"Touch":            func(ctx context.Context) error { return redistest.Err(l.Touch(ctx)) },
		"SizeInMemory":     func(ctx context.Context) error { return redistest.Err(l.SizeInMemory(ctx)) },
		"Copy":             func(ctx context.Context) error { return redistest.Err(l.Copy(ctx, "copy", Replace())) },
		"RenameNX":         func(ctx context.Context) error { return redistest.Err(l.RenameNX(ctx, l.Name())) },
		"Rename":           func(ctx context.Context) error { return l.Rename(ctx, l.Name()) },
		"Unlink":           func(ctx context.Context) error { return redistest.Err(l.Unlink(ctx)) },
		"Delete":           func(ctx context.Context) error { return redistest.Err(l.Delete(ctx)) },
	}
}

func (f *fixture) rate() int64 {
	f.Helper()
	rate, err := strconv.ParseInt(f.Redis.HGet("limiter", "rate"), 10, 64)
	require.NoError(f, err)
	return rate
}

// setRate sets the rate as another client does that keeps the state.
func (f *fixture) setRate(rate int64) { f.Redis.HSet("limiter", "rate", strconv.FormatInt(rate, 10)) }

// hint returns the hint of a Client that knows the limiter.
func (f *fixture) hint() string {
	return f.Redis.HGet("limiter", "rate") + " " + f.Redis.HGet("limiter", "interval")
}

// run runs a script as it is.
func (f *fixture) run(script *redisx.Script, l *Limiter, args ...string) (rueidis.RedisMessage, error) {
	return l.wire.client.engine.Eval(f.Context(), nil, script, l.wire.keys[:], args, nil)
}

func (f *fixture) nowText() string { return strconv.FormatInt(time.Now().UnixMilli(), 10) }

// member is a member of a grant: one letter 16 times, and the permits.
func member(letter string, permits int64) string {
	return memberOf("\x10"+strings.Repeat(letter, 16), permits)
}

// granted takes permits under a member of that letter.
func (f *fixture) granted(l *Limiter, letter string, permits int64) {
	f.Helper()
	reply, err := f.run(acquireScript, l, f.nowText(), member(letter, permits), f.hint(), "", fmt.Sprint(permits))
	require.NoError(f, err)
	left, err := reply.AsInt64()
	require.NoError(f, err)
	require.GreaterOrEqual(f, left, int64(0))
}

// fill grants permits so many times, a millisecond apart: the first time by a call, then in its place,
// since calls take long. The sizes take turns.
func (f *fixture) fill(l *Limiter, grants int, sizes ...int64) {
	f.Helper()
	f.RequireGranted(l, sizes[0])
	value, permits := valueKey, permitsKey
	if f.Redis.HGet(l.Name(), "type") == "1" {
		value, permits = clientValueKey, clientPermitsKey
	}
	for i := 1; i < grants; i++ {
		time.Sleep(time.Millisecond)
		n, now := sizes[i%len(sizes)], float64(timeOf(l.wire.client.nowText()))
		f.RequireNoError(f.Redis.ZAdd(l.wire.keys[permits], now, l.wire.client.member(n, false)))
		f.RequireNoError(f.Redis.Incr(l.wire.keys[value], -int(n)))
	}
	time.Sleep(time.Millisecond)
}

// fillNow is fill with grants of one permit and of this moment.
func (f *fixture) fillNow(l *Limiter, grants int) {
	f.Helper()
	f.RequireGranted(l, 1)
	for range grants - 1 {
		f.RequireNoError(f.Redis.ZAdd("{limiter}:permits", float64(time.Now().UnixMilli()), l.wire.client.member(1, false)))
	}
	f.RequireNoError(f.Redis.Incr("{limiter}:value", 1-grants))
}

// grants returns the permits of all members of the overall set, by their letters.
func (f *fixture) grants() map[string]int64 {
	all := make(map[string]int64)
	for _, m := range f.members() {
		permits, _ := permitsOf(m)
		all[m[1:2]] += permits
	}
	return all
}

// members returns the members of the overall set.
func (f *fixture) members() []string {
	if !f.Redis.Exists("{limiter}:permits") {
		return nil
	}
	members, err := f.Redis.ZMembers("{limiter}:permits")
	require.NoError(f, err)
	return members
}

// ttls returns the TTLs of all keys, by the end of their names; 0 is none.
func (f *fixture) ttls() map[string]time.Duration {
	all := make(map[string]time.Duration)
	for _, key := range f.Redis.Keys() {
		name := strings.TrimPrefix(key, "{limiter}:")
		if before, _, own := strings.Cut(name, ":"); own {
			name = "own " + before
		}
		all[name] = f.Redis.TTL(key)
	}
	return all
}

// texts is a reply of the acquire script as text, its parts with a space between them.
func texts(t require.TestingT, reply rueidis.RedisMessage, err error) string {
	require.NoError(t, err)
	if reply.IsInt64() {
		n, _ := reply.AsInt64()
		return strconv.FormatInt(n, 10)
	}
	parts, err := reply.ToArray()
	require.NoError(t, err)
	var all []string
	for _, p := range parts {
		if n, err := p.AsInt64(); err == nil {
			all = append(all, strconv.FormatInt(n, 10))
		} else {
			text, _ := p.ToString()
			all = append(all, text)
		}
	}
	return strings.Join(all, " ")
}

// fuzzEpoch is the time at which the clocks of the fuzzed limiters begin.
var fuzzEpoch = time.UnixMilli(1_700_000_000_000)

// fuzzServer is an in-memory Redis and a client of it, for all inputs of one target.
func fuzzServer(f *testing.F) (*miniredis.Miniredis, rueidis.Client) {
	server := miniredis.RunT(f)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true,
	})
	require.NoError(f, err)
	f.Cleanup(client.Close)
	return server, client
}

// drift returns value + permits in the set - rate.
func (f *fixture) drift() int64 {
	f.Helper()
	synctest.Wait() // a lease that arrives between the two reads below would look like drift
	value := f.Stored("{limiter}:value")
	return value + f.sum() - f.rate()
}

// sum returns the permits in the set.
func (f *fixture) sum() (sum int64) {
	f.Helper()
	for _, m := range f.members() {
		permits, _ := permitsOf(m)
		sum += permits
	}
	return sum
}

// redissonReleases raises the value and leaves the grants.
func (f *fixture) redissonReleases(permits int64) {
	f.Helper()
	value := f.Stored("{limiter}:value")
	f.RequireNoError(f.Redis.Incr("{limiter}:value", int(min(f.rate()-value, permits))))
}

// countedNow lets the next count of drift wait for an hour.
func (f *fixture) countedNow(l *Limiter) {
	l.wire.hint().counts.skip(time.Now().UnixMilli(), time.Hour, time.Hour)
}

// recount counts the permits of a limiter.
func (f *fixture) recount(l *Limiter) {
	f.Helper()
	_, _, err := l.wire.recount(f.Context(), l.wire.client.nowText())
	require.NoError(f, err)
}
