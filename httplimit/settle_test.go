package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// settling is a handler that settles.
func settling(b *redistest.Fixture, costs ...int64) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for _, cost := range costs {
			assert.NoError(b, httplimit.Settle(r.Context(), cost))
		}
	})
}

func left(b *redistest.Fixture, client *rratelimiter.Client, permits int64) int64 {
	d, err := limit.New(client, "web:192.0.2.1", hour(permits)).Peek(b.Context())
	require.NoError(b, err)
	return d[0].Remaining
}

func TestSettle(t *testing.T) {
	for name, c := range map[string]struct {
		costs []int64
		left  int64
	}{
		"nothing said": {nil, 5}, "back": {[]int64{0}, 10}, "a part back": {[]int64{2}, 8}, "as taken": {[]int64{5}, 5}, "more": {[]int64{8}, 2},
		"more than there is": {[]int64{12}, 0}, "the last counts": {[]int64{9, 0, 1}, 9},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
				five := httplimit.Cost(func(*http.Request) int64 { return 5 })
				handler := httplimit.Middleware(perIP(client, hour(10)), five)(settling(b, c.costs...))
				require.Equal(b, 200, serve(handler, request()).Code)
				assert.Equal(b, c.left, left(b, client, 10))
			})
		})
	}
}

// A client that goes away in the middle is settled for all the same; a handler that panics too.
func TestSettleBehindTheEnd(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		ctx, cancel := context.WithCancel(b.Context())
		handler := httplimit.Middleware(perIP(client, hour(10)))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			assert.NoError(b, httplimit.Settle(r.Context(), 4))
		}))
		serve(handler, request().WithContext(ctx))
		assert.EqualValues(b, 6, left(b, client, 10))

		handler = httplimit.Middleware(perIP(client, hour(10)))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			assert.NoError(b, httplimit.Settle(r.Context(), 2))
			panic(http.ErrAbortHandler)
		}))
		assert.Panics(b, func() { serve(handler, request()) })
		assert.EqualValues(b, 4, left(b, client, 10))
	})
}

// What cannot be settled says so where it is asked for.
func TestSettleFails(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		quota := client.Limiter("quota")
		require.NoError(b, quota.SetRate(b.Context(), rratelimiter.Rate{Permits: 10, Interval: time.Hour}))
		var later context.Context
		handler := httplimit.Middleware(httplimit.All(quota))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			later = r.Context()
			assert.ErrorIs(b, httplimit.Settle(r.Context(), 2), errors.ErrUnsupported)
			assert.ErrorIs(b, httplimit.Settle(r.Context(), -1), rratelimiter.ErrInvalidPermits)
			assert.NoError(b, httplimit.Settle(r.Context(), 0))
		}))
		serve(handler, request())
		free, err := quota.AvailablePermits(b.Context())
		require.NoError(b, err)
		assert.EqualValues(b, 10, free)
		assert.ErrorContains(b, httplimit.Settle(later, 0), "has returned")
	})
}

// A settlement has the deadline, and one that fails is told.
func TestSettleInAnOutage(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		var told []error
		handler := httplimit.Middleware(perIP(client, hour(10)), httplimit.OnSettleError(func(_ *http.Request, err error) { told = append(told, err) }))(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				b.Latency.Store(int64(time.Minute))
				assert.NoError(b, httplimit.Settle(r.Context(), 0))
			}))
		begin := time.Now()
		assert.Equal(b, 200, serve(handler, request()).Code)
		assert.Equal(b, httplimit.DefaultDeadline, time.Since(begin))
		require.Len(b, told, 1)
		assert.ErrorIs(b, told[0], context.DeadlineExceeded)
		b.Latency.Store(0)
		redistest.Pass(time.Minute)
	})
}
