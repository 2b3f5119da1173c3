// Package rratelimitertest tests programs that use rratelimiter, without a Redis server: with a
// Redis in memory that follows the clock of testing/synctest, and a Client of it.
//
//	func TestOrders_SecondInAMinute_IsDenied(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			env := rratelimitertest.New(t)
//			handler := newHandler(env.Client) // limits each address to one order a minute
//			assert.Equal(t, http.StatusCreated, post(handler))
//			assert.Equal(t, http.StatusTooManyRequests, post(handler))
//			time.Sleep(time.Minute)
//			assert.Equal(t, http.StatusCreated, post(handler))
//		})
//	}
//
// Each test has an Env of its own, so that parallel tests share nothing. The end of the test closes
// it.
//
// # Time
//
// New must be called in a bubble of testing/synctest, whose clock begins at midnight UTC on 2000-01-01 and
// advances by time.Sleep. It dates grants, and it is the server's clock: it expires keys, and
// [rratelimiter.WithServerTime] reads it. Waiting callers, timeouts, contexts, prefetches and middleware all
// follow it, exactly and in no time. synctest.Wait after time.Sleep returns when the waiting callers whose
// permits have returned are granted them.
//
// # Failures
//
// After Redis.Fail every call fails, until Redis.Recover. A caller that waits in Acquire fails with
// its next call. Middleware finds out that Redis is back within a second, or within its deadline if
// that is longer: sleep for that time.
//
// # Other Clients
//
// Redis.Client returns a rueidis.Client, for programs that create their own Client.
package rratelimitertest
