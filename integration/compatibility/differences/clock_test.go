package differences_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

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
