// Package rratelimitertest tests programs that use rratelimiter, without a Redis server: with a
// Redis in memory, a Client, and a clock that the test moves.
//
//	func TestOrders_SecondInAMinute_IsDenied(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			env := rratelimitertest.New(t)
//			handler := newHandler(env.Client) // limits each address to one order a minute
//			assert.Equal(t, http.StatusCreated, post(handler))
//			assert.Equal(t, http.StatusTooManyRequests, post(handler))
//			env.Clock.Advance(time.Minute)
//			assert.Equal(t, http.StatusCreated, post(handler))
//		})
//	}
//
// Each test has an Env of its own, so that parallel tests share nothing. The end of the test closes
// it.
//
// # Time
//
// The clock begins at midnight UTC on 2000-01-01. It dates grants, and it is the server's clock: it
// expires keys, and [rratelimiter.WithServerTime] reads it.
//
// If New is called inside a testing/synctest bubble, the clock is that of the bubble. Advance
// sleeps, and time.Sleep advances. Waiting callers, timeouts, contexts, leases and middleware all
// follow it, exactly and in no time.
//
// Outside a bubble, only Advance moves the clock. It moves in one step, and in this order:
//
//   - Unused permits of leases are released.
//   - The clock moves, and cached denials are dropped.
//   - Each caller that waits in Acquire, in TryAcquireWithin or in middleware, asks Redis again. If
//     its permits have returned, it is served. Advance returns when they have their answers.
//
// The rest counts real time: timeouts, contexts and the deadline of middleware. Outside a bubble, give middleware a long deadline, since a busy machine can be slow.
//
// # Failures
//
// After Redis.Fail every call fails, until Redis.Recover. A caller that waits in Acquire fails with
// its next call. Middleware finds out that Redis is back within a second, or within its deadline if
// that is longer. In a bubble, advance the clock by that time.
//
// # Other Clients
//
// Redis.Client returns a rueidis.Client, for programs that create their own Client. Give that
// Client the clock with the option rratelimiter.WithClock(env.Clock.Now).
//
// Outside a bubble, Advance does not wake waiting callers of such a Client. It does not end the
// leases of such a Client either.
//
// # Real servers
//
// A test on a real Redis or Valkey starts it in a container, with
// github.com/testcontainers/testcontainers-go and its module redis:
//
//	func newClient(t *testing.T) *rratelimiter.Client {
//		container, err := redis.Run(t.Context(), "redis:8.2")
//		testcontainers.CleanupContainer(t, container)
//		require.NoError(t, err)
//		url, err := container.ConnectionString(t.Context())
//		require.NoError(t, err)
//		client, err := rueidis.NewClient(rueidis.MustParseURL(url))
//		require.NoError(t, err)
//		t.Cleanup(client.Close)
//		return rratelimiter.New(client)
//	}
package rratelimitertest
