package rratelimiter

import (
	"context"
	"crypto/tls"
	"maps"
	"math"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestWithNameMapper_Mapper_NamesKeysAndPanicsInItsCaller: Limiter, Rename and Copy call it before
// they change anything.
func TestWithNameMapper_Mapper_NamesKeysAndPanicsInItsCaller(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Hour}, WithNameMapper(func(name string) string {
			if name == "bad" {
				panic("no name")
			}
			return "app:" + name
		}))
		assert.PanicsWithValue(t, "no name", func() { l.protocol.client.Limiter("bad") })
		assert.PanicsWithValue(t, "no name", func() { _ = l.Rename(t.Context(), "bad") })
		assert.PanicsWithValue(t, "no name", func() { _, _ = l.Copy(t.Context(), "bad") })
		f.RequireGranted(l, 10)
		assert.Equal(t, []string{"app:limiter", "{app:limiter}:permits", "{app:limiter}:value"}, f.Redis.Keys())
		assert.Equal(t, "limiter", l.Name())
	})
}

func TestNew_SeveralClocks_LastOneIsUsed(t *testing.T) {
	fixed := func() time.Time { return time.UnixMilli(1234567) }
	for want, opts := range map[string][]Option{
		"1234567": {WithServerTime(), nil, WithClock(fixed)},
		"":        {WithClock(fixed), WithServerTime()},
	} {
		assert.Equal(t, want, New(nil, opts...).nowText())
	}
	assert.NotEmpty(t, New(nil, WithServerTime(), WithClock(nil)).nowText())
}

// TestWithClock_BeginsAtTheZeroTime_DatesAllCalls: as the clock of a test may.
func TestWithClock_BeginsAtTheZeroTime_DatesAllCalls(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		var now time.Time
		l := f.limiter(Rate{Permits: 1, Interval: time.Second}, WithClock(func() time.Time { return now }))
		for range 3 {
			f.RequireGranted(l, 1)
			f.RequireFalse(l.TryAcquire(t.Context(), 1))
			now = now.Add(time.Second)
		}
	})
}

func TestWithClock_ClockJumpsBack_WindowIsKept(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		var skew time.Duration
		l := f.limiter(Rate{Permits: 10, Interval: 10 * time.Second},
			WithClock(func() time.Time { return time.Now().Add(skew) }))
		f.RequireGranted(l, 6)
		skew = -time.Hour
		f.RequireAvailable(l, 4)
		f.RequireGranted(l, 4)
		f.RequireDenied(l, 1)
		time.Sleep(10 * time.Second)
		f.RequireAvailable(l, 4) // those dated by the clock that was set back; the 6 stay for the hour of its jump
		time.Sleep(time.Hour)
		f.RequireGranted(l, 10)
	})
}

// TestLimiter_InvalidInput_IsRefusedUnsent: each error has a type, and Redis receives no command.
func TestLimiter_InvalidInput_IsRefusedUnsent(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		good := New(f.Conn).Limiter("limiter")
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		expired, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
		defer cancel()
		before := f.Redis.CommandCount()
		for _, n := range []int64{0, -1, math.MinInt64, 1 << 32} {
			calls := everyCallWith(good, n, Rate{})
			for _, name := range []string{"TryAcquire", "Take", "TakeUpTo", "Acquire", "TryAcquireWithin", "TakeWithin"} {
				assert.ErrorIs(t, calls[name](ctx), ErrInvalidPermits, "%s(%d)", name, n)
			}
			assert.ErrorIs(t, redistest.Err(good.TryAcquireWithin(ctx, n, 0)), ErrInvalidPermits, n)
		}
		assert.NoError(t, good.Release(ctx, 0))
		assert.ErrorIs(t, new(Limiter).Release(ctx, 0), ErrNoClient)
		assert.ErrorIs(t, good.Release(ctx, -1), ErrInvalidPermits)
		assert.ErrorIs(t, good.Release(ctx, 1<<53+1), ErrInvalidPermits)
		assert.ErrorIs(t, redistest.Err(good.Expire(ctx, time.Second, 9)), ErrInvalidOption)
		assert.ErrorIs(t, redistest.Err(good.Expire(ctx, time.Second, IfNotSet, IfGreater)), ErrInvalidOption)
		assert.ErrorIs(t, redistest.Err(good.ExpireAt(ctx, time.Now(), IfLess, IfGreater)), ErrInvalidOption)
		assert.ErrorIs(t, good.Rename(ctx, ""), ErrInvalidName)
		assert.ErrorIs(t, redistest.Err(good.Copy(ctx, "")), ErrInvalidName)
		all := func(l *Limiter, ctx context.Context, want error) {
			for name, call := range everyCall(l) {
				assert.ErrorIs(t, call(ctx), want, name)
			}
		}
		for _, rate := range []Rate{
			{}, {Permits: 0, Interval: time.Second}, {Permits: 1<<53 + 1, Interval: time.Second},
			{Permits: 1}, {Permits: 1, Interval: -time.Second}, {Permits: 1, Interval: time.Second + time.Microsecond},
			{Permits: 1, Interval: time.Second, KeepAlive: -1},
			{Permits: 1, Interval: time.Second, KeepAlive: time.Second - time.Millisecond},
			{Permits: 1, Interval: time.Second, KeepAlive: time.Second + 1},
			{Type: 2, Permits: 1, Interval: time.Second}, {Type: -1, Permits: 1, Interval: time.Second},
		} {
			calls := everyCallWith(good, 1, rate)
			for _, name := range []string{"TrySetRate", "SetRate", "SetRate keep", "UpdateRate"} {
				assert.ErrorIs(t, calls[name](ctx), ErrInvalidRate, "%s(%+v)", name, rate)
			}
			all(New(f.Conn).Limiter("limiter", InitialRate(rate)), ctx, ErrInvalidRate)
		}
		all(New(f.Conn).Limiter(""), ctx, ErrInvalidName)
		all(New(f.Conn, WithNameMapper(func(string) string { return "" })).Limiter("limiter"), ctx, ErrInvalidName)
		all(New(f.Conn, WithNameMapper(func(string) string { return "x" })).Limiter(""), ctx, ErrInvalidName)
		all(New(nil).Limiter("limiter"), ctx, ErrNoClient)
		all(new(Client).Limiter("limiter"), ctx, ErrNoClient)
		all(new(Limiter), ctx, ErrNoClient)
		for _, option := range []Option{
			WithWaitJitter(-1), WithPrefetch(0), WithPrefetch(-time.Millisecond), WithPrefetch(1500 * time.Microsecond),
			WithPrefetch(time.Second + time.Millisecond),
		} {
			all(New(f.Conn, option).Limiter("limiter"), ctx, ErrInvalidOption)
		}
		all(good, cancelled, context.Canceled)
		all(good, expired, context.DeadlineExceeded)
		assert.Equal(t, before, f.Redis.CommandCount(), "commands that Redis got")
	})
}

// TestObserver_Calls_AreReportedWithTheirNames: a decision, and the call to Redis.
func TestObserver_Calls_AreReportedWithTheirNames(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		var decisions []DecisionInfo
		var calls []RedisCallInfo
		o := &Observer{
			Decision:  func(_ context.Context, d DecisionInfo) { decisions = append(decisions, d) },
			RedisCall: func(_ context.Context, c RedisCallInfo) { calls = append(calls, c) },
		}
		given := WithObserver(o)
		*o = Observer{} // which is not read later
		l := f.limiter(Rate{Permits: 10, Interval: time.Hour}, given)
		const trip = 10 * time.Millisecond
		f.Latency.Store(int64(trip))
		require.NoError(t, l.Acquire(t.Context(), 3))
		f.RequireDenied(l, 8)
		granted, _, err := l.TakeUpTo(t.Context(), 50)
		require.NoError(t, err)
		require.EqualValues(t, 7, granted)
		_, err = l.TryAcquire(t.Context(), 11)
		require.ErrorIs(t, err, ErrPermitsExceedRate)
		_, refused := l.TryAcquire(t.Context(), engine.MaxPermits+1)
		require.ErrorIs(t, refused, ErrInvalidPermits)
		_, invalid := l.TryAcquire(t.Context(), 0)
		require.ErrorIs(t, invalid, ErrInvalidPermits) // is not reported

		assert.Equal(t, []DecisionInfo{
			{Name: "limiter", Policy: "redisson", Permits: 3, Granted: true, Took: trip, Source: FromRedis},
			{Name: "limiter", Policy: "redisson", Permits: 8, Took: trip, Source: FromRedis},
			{Name: "limiter", Policy: "redisson", Permits: 7, Granted: true, Took: trip, Source: FromRedis},
			{Name: "limiter", Policy: "redisson", Permits: 11, Took: trip, Err: err},
			{Name: "limiter", Policy: "redisson", Permits: engine.MaxPermits + 1, Err: refused},
		}, decisions)
		assert.Equal(t, []RedisCallInfo{
			{Name: "limiter", Policy: "redisson", Requests: 1, Permits: 3, Took: trip},
			{Name: "limiter", Policy: "redisson", Requests: 1, Permits: 8, Took: trip},
			{Name: "limiter", Policy: "redisson", Requests: 1, Permits: 50, Took: trip},
			{Name: "limiter", Policy: "redisson", Requests: 1, Permits: 11, Took: trip},
		}, calls)
	})
}

// TestConnect_RedisIsAway_CallsFailUntilItComes: of one server and of a cluster, which a server of
// miniredis says that it is.
func TestConnect_RedisIsAway_CallsFailUntilItComes(t *testing.T) {
	for _, single := range []bool{true, false} {
		_, address, come := redistest.Away(t)
		redis, err := Connect(rueidis.ClientOption{InitAddress: []string{address}, ForceSingleClient: single,
			DisableCache: true})
		require.NoError(t, err)
		defer redis.Close()
		l := New(redis).Limiter("limiter", InitialRate(Rate{Permits: 1, Interval: time.Hour}))
		_, err = l.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)

		come()
		var granted bool
		require.Eventually(t, func() bool {
			granted, err = l.TryAcquire(t.Context(), 1)
			return err == nil
		}, time.Minute, time.Millisecond)
		require.True(t, granted)
		granted = redistest.Result(t, l.TryAcquire, 1)
		require.False(t, granted)
		require.Equal(t, single, redis.Mode() == rueidis.ClientModeStandalone)
	}
}

// TestConnect_MasterBecomesReplica_DialsAgain: a master behind one address, whose connections stay open.
func TestConnect_MasterBecomesReplica_DialsAgain(t *testing.T) {
	old, other := miniredis.RunT(t), miniredis.RunT(t)
	var master atomic.Pointer[miniredis.Miniredis]
	master.Store(old)
	redis, err := Connect(rueidis.ClientOption{InitAddress: []string{"redis:6379"}, ForceSingleClient: true,
		DisableCache: true, PipelineMultiplex: -1, // one connection: others would reach the new master at once
		DialCtxFn: func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", master.Load().Addr())
		}})
	require.NoError(t, err)
	defer redis.Close()
	l := New(redis).Limiter("limiter", InitialRate(Rate{Permits: 1, Interval: time.Hour}))
	granted := redistest.Result(t, l.TryAcquire, 1)
	require.True(t, granted)

	master.Store(other)
	old.Server().SetPreHook(func(peer *server.Peer, command string, _ ...string) bool {
		if command == "EVALSHA" {
			peer.WriteError("READONLY You can't write against a read only replica.")
		}
		return command == "EVALSHA"
	})
	_, err = l.TryAcquire(t.Context(), 1)
	require.ErrorContains(t, err, "READONLY")
	require.Eventually(t, func() bool {
		granted, err = l.TryAcquire(t.Context(), 1)
		return err == nil
	}, time.Minute, time.Millisecond)
	require.True(t, granted, "the other server")
	require.Equal(t, []string{"redis:6379"}, slices.Collect(maps.Keys(redis.Nodes())))
}

// TestConnect_Rejection_IsAnError: it does not pass by itself.
func TestConnect_Rejection_IsAnError(t *testing.T) {
	server := miniredis.RunT(t)
	server.RequireAuth("hidden")
	for _, single := range []bool{true, false} {
		_, err := Connect(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: single,
			Password: "wrong"})
		require.ErrorContains(t, err, "WRONGPASS")
	}
	require.ErrorIs(t, redistest.Err(Connect(rueidis.ClientOption{})), rueidis.ErrNoAddr)
}
