package differences_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/proxy"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// Five grants of 2 expire one after another, from half a second on and 0.2 s apart. The caller
// requests all 10 permits.
func TestTryAcquireWithin_AllPermits_WaitsOnce(t *testing.T) {
	const first, apart = 500 * time.Millisecond, 200 * time.Millisecond
	theirs, ours := pair(t, perMinute(10))
	spread := func(name string) {
		for i := range 5 {
			take(t, here.Limiter(name), 2)
			age(t, permitsKey(name), apart)
			if i == 4 {
				age(t, permitsKey(name), time.Minute-first-5*apart)
			}
		}
	}

	spread(theirs.Name())
	sent := scripts(t, func() {
		requireTrue(t)(theirs.TryAcquireWithin(t.Context(), 10, 10*time.Second))
	})
	require.Greater(t, sent, int64(2), "one for each expired grant; only the last one succeeds")

	// Redis 6.0 counts an EVALSHA of an unknown script as a call.
	other := here.Limiter("another limiter, which loads the script of waiters")
	requireTrue(t)(other.TrySetRate(t.Context(), perMinute(10)))
	requireTrue(t)(other.TryAcquireWithin(t.Context(), 1, time.Second))

	spread(ours.Name())
	require.Greater(t, redistest.Result(t, ours.Take, 10).RetryAfter, first+2*apart, "not the first of the five grants")
	sent = scripts(t, func() {
		requireTrue(t)(ours.TryAcquireWithin(t.Context(), 10, 10*time.Second))
	})
	require.Equal(t, int64(2), sent, "at the start, and when the permits are free")
}

func TestTryAcquireWithin_MinusOneMillisecond_TriesOnce(t *testing.T) {
	theirs, ours := pair(t, rratelimiter.Rate{Permits: 1, Interval: 2 * time.Second})

	take(t, theirs, 1)
	granted, err := theirs.TryAcquireWithin(t.Context(), 1, -2*time.Millisecond)
	require.NoError(t, err)
	require.False(t, granted, "any other negative timeout is one try")
	requireTrue(t, "it has waited for the permit")(theirs.TryAcquireWithin(t.Context(), 1, -time.Millisecond))

	take(t, ours, 1)
	sent := scripts(t, func() {
		granted, err = ours.TryAcquireWithin(t.Context(), 1, -time.Millisecond)
		require.NoError(t, err)
		require.False(t, granted)
	})
	require.Equal(t, int64(1), sent, "one try")
}

// The server replies after the timeout.
func TestTryAcquireWithin_TimeoutDuringCall_ReleasesPermits(t *testing.T) {
	theirs, ours := pair(t, perMinute(10))
	const timeout = 100 * time.Millisecond

	ask(t, "CLIENT", "PAUSE", "600")
	requireTrue(t, "though the timeout has ended")(theirs.TryAcquireWithin(t.Context(), 1, timeout))

	ask(t, "CLIENT", "PAUSE", "3000")
	began := time.Now()
	granted, err := ours.TryAcquireWithin(t.Context(), 1, timeout)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.False(t, granted)
	require.Less(t, time.Since(began), 2500*time.Millisecond)
	require.Eventually(t, func() bool { // when the server continues
		free, err := ours.AvailablePermits(t.Context())
		return err == nil && free == 10
	}, 30*time.Second, 10*time.Millisecond, "the permit is released")
}

// requireGrantedAt takes a permit and checks which clock the grant has, and whether the call read
// the server's clock.
func requireGrantedAt(t *testing.T, l acquirer, name string, clock func() time.Time, serverRead bool) {
	t.Helper()
	before, reads := clock().UnixMilli(), server.Calls(t, "time")
	take(t, l, 1)
	after := clock().UnixMilli()
	score := scores(t, permitsKey(name))[0]
	require.GreaterOrEqual(t, score, before)
	require.LessOrEqual(t, score, after)
	require.Equal(t, serverRead, server.Calls(t, "time") > reads)
}

func TestTryAcquire_EachClock_DatesTheGrant(t *testing.T) {
	anHourAhead := func() time.Time { return time.Now().Add(time.Hour) }
	theirs, ours := pair(t, perMinute(10))
	requireGrantedAt(t, theirs, theirs.Name(), time.Now, false)
	requireGrantedAt(t, ours, ours.Name(), time.Now, false)

	ahead := rratelimiter.New(redis, rratelimiter.WithClock(anHourAhead)).Limiter(t.Name() + " ahead")
	require.NoError(t, ahead.SetRate(t.Context(), perMinute(10)))
	requireGrantedAt(t, ahead, ahead.Name(), anHourAhead, false)

	// The server runs on this host, so its clock is time.Now too.
	byServer := rratelimiter.New(redis, rratelimiter.WithClock(anHourAhead),
		rratelimiter.WithServerTime()).Limiter(t.Name() + " server")
	require.NoError(t, byServer.SetRate(t.Context(), perMinute(10)))
	requireGrantedAt(t, byServer, byServer.Name(), time.Now, true)
}

// The server grants, and the connection ends before the reply.
func TestTryAcquire_ReplyLost_IsSentOnce(t *testing.T) {
	theirs, ours := pair(t, perMinute(10))
	disturbed := proxy.Start(t, server.Addr())
	// loseReply takes 2 permits, after one that is taken, in a call whose reply is lost.
	loseReply := func(l acquirer, name string) (granted bool, err error) {
		restore := disturbed.Disturb(t, "timeout", "downstream", `"timeout": 0`)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			granted, err = l.TryAcquire(t.Context(), 2)
		}()
		require.Eventually(t, func() bool { return len(counts(t, permitsKey(name))) == 2 }, 5*time.Second, time.Millisecond)
		restore() // closes the connection
		<-ended
		require.ElementsMatch(t, []int64{1, 2}, counts(t, permitsKey(name)))
		return granted, err
	}

	redisson := oracle.Start(t, redissonVersion, oracle.Single(disturbed.Listen),
		oracle.WithTimeout(5*time.Second)).Limiter(theirs.Name())
	take(t, redisson, 1)
	requireTrue(t)(loseReply(redisson, theirs.Name()))
	require.Equal(t, int64(5), value(t, theirs.Name()), "10 - 1 - 2 - 2")
	age(t, permitsKey(theirs.Name()), time.Minute)
	requireFree(t, theirs, 8)

	redis := servers.Connect(t, rueidis.ClientOption{InitAddress: []string{disturbed.Listen}, ForceSingleClient: true,
		PipelineMultiplex: -1}) // one connection: another one would not be made while replies are lost
	client := rratelimiter.New(redis)
	take(t, client.Limiter(ours.Name()), 1)
	require.NoError(t, client.Flush(t.Context())) // the count of drift, which hides a second call
	_, err := loseReply(client.Limiter(ours.Name()), ours.Name())
	require.Error(t, err)
	require.Equal(t, int64(7), value(t, ours.Name()))
	age(t, permitsKey(ours.Name()), time.Minute)
	requireFree(t, ours, 10)
}
