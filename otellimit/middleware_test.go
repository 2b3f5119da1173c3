package otellimit

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
)

func TestMiddleware_Request_CountsByResult(t *testing.T) {
	for _, c := range []struct {
		o    httplimit.Outcome
		want string
	}{
		{httplimit.Outcome{Result: httplimit.Acquired}, "rratelimiter.middleware=d,rratelimiter.result=acquired"},
		{httplimit.Outcome{Result: httplimit.Acquired, Shadow: true}, "rratelimiter.middleware=d,rratelimiter.result=acquired"},
		{httplimit.Outcome{Result: httplimit.Rejected}, "rratelimiter.middleware=d,rratelimiter.result=rejected"},
		{httplimit.Outcome{Result: httplimit.Rejected, Err: rratelimiter.ErrPermitsExceedRate},
			"rratelimiter.middleware=d,rratelimiter.result=rejected"},
		{httplimit.Outcome{Result: httplimit.Rejected, Shadow: true}, "rratelimiter.middleware=d,rratelimiter.result=shadowed"},
		{httplimit.Outcome{Result: httplimit.Canceled, Err: context.Canceled},
			"error.type=canceled,rratelimiter.middleware=d,rratelimiter.result=canceled"},
		{httplimit.Outcome{Result: httplimit.Canceled, Err: context.Canceled, Shadow: true},
			"error.type=canceled,rratelimiter.middleware=d,rratelimiter.result=canceled"},
		{httplimit.Outcome{Result: httplimit.FailedOpen, Err: context.DeadlineExceeded},
			"error.type=deadline_exceeded,rratelimiter.middleware=d,rratelimiter.result=failed_open"},
		{httplimit.Outcome{Result: httplimit.FailedClosed, Err: errSecret},
			"error.type=_OTHER,rratelimiter.middleware=d,rratelimiter.result=failed_closed"},
		{httplimit.Outcome{Result: httplimit.FailedClosed, Err: errSecret, Shadow: true},
			"error.type=_OTHER,rratelimiter.middleware=d,rratelimiter.result=failed_open"},
		{httplimit.Outcome{Result: httplimit.Invalid, Err: httplimit.ErrInvalidRequest},
			"error.type=invalid_request,rratelimiter.middleware=d,rratelimiter.result=invalid"},
		{httplimit.Outcome{Result: httplimit.Invalid, Err: httplimit.ErrInvalidRequest, Shadow: true},
			"error.type=invalid_request,rratelimiter.middleware=d,rratelimiter.result=shadowed"},
		{httplimit.Outcome{Err: errSecret}, "rratelimiter.middleware=d,rratelimiter.result=_OTHER"},
		{httplimit.Outcome{Result: 7}, "rratelimiter.middleware=d,rratelimiter.result=_OTHER"},
	} {
		b := setUp(t)
		b.Middleware("d").Request(context.Background(), c.o)
		assert.Equal(t, map[string]int64{c.want: 1}, b.sums("middleware.requests"), "%+v", c.o)
	}
}

func TestMiddleware_ResultsOfHTTP_AreKnown(t *testing.T) {
	for _, r := range []httplimit.Result{
		httplimit.Acquired, httplimit.Rejected, httplimit.FailedOpen, httplimit.FailedClosed, httplimit.Canceled,
		httplimit.Invalid,
	} {
		assert.Contains(t, outcomes, r)
		assert.Equal(t, r.String(), results[outcomes[r]])
	}
	assert.Len(t, outcomes, 6)
}

// flaky is a limiter whose calls fail while it is down.
type flaky struct{ down atomic.Bool }

func (f *flaky) Take(context.Context, int64) (rratelimiter.Decision, error) {
	if f.down.Load() {
		return rratelimiter.Decision{}, errors.New("connection refused")
	}
	return rratelimiter.Decision{Allowed: true}, nil
}

// The background probe of a middleware ends its count.
func TestMiddleware_RedisDown_CountsEachMiddleware(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setUp(t)
		middleware := b.Middleware("http")
		active := func() int64 { return b.sums("fallback.active")["rratelimiter.middleware=http"] }
		stores := []*flaky{{}, {}}
		var handlers []http.Handler
		for _, s := range stores {
			limited := httplimit.Middleware(httplimit.All(s), httplimit.OnRedisChange(middleware.RedisChange))
			handlers = append(handlers, limited(http.NotFoundHandler()))
		}
		request := func(i int) {
			time.Sleep(httplimit.DefaultDeadline)
			handlers[i].ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		}
		request(0)
		assert.Contains(t, b.metrics(), "fallback.active")
		assert.Zero(t, active())
		for i, s := range stores {
			s.down.Store(true)
			request(i)
			assert.EqualValues(t, i+1, active())
			request(i)
			assert.EqualValues(t, i+1, active(), "still down")
		}
		for i, s := range stores {
			s.down.Store(false)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			assert.EqualValues(t, 1-i, active())
		}
	})
}
