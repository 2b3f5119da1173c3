package ruleset

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

func middlewares(set *Set, client *rratelimiter.Client) *Middlewares[*http.Request] {
	open := func(change func(*guard.Settings), _ bool, _ httplimit.Option) Middleware[*http.Request] {
		limiterOf := func(r *http.Request) (httplimit.Limiter, error) { return LimiterOf(r.Context()) }
		limited := httplimit.Middleware(limiterOf, struct {
			httplimit.Option
			guard.Change
		}{Change: change})(http.NotFoundHandler())
		return func(ctx context.Context, r *http.Request, _ Handler[*http.Request]) error {
			limited.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
			return nil
		}
	}
	return NewMiddlewares("test", set, client, httplimit.Settle, open)
}

// serve lets the first middleware of a request decide it.
func serve(current *Version[*http.Request], r *http.Request) {
	pass := func(context.Context, *http.Request) error { return nil }
	_ = current.Serve(r.Context(), ofHTTP(r), r, pass)
}

// TestMiddlewares_Reload_KeepsTheState, and the deadline is that of the newest file, also for a request that
// has read an older one.
func TestMiddlewares_Reload_KeepsTheState(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		rules := "rules: [{name: a, match: /a, key: ip, limits: 9/h}, {name: b, match: /b, key: ip, limits: 9/h, shadow: true}]"
		set := new(Set)
		set.Replace(parsed(t, "deadline: 1s\n"+rules))
		m := middlewares(set, client)
		old := m.Now()
		serve(old, request("GET /other"))
		assert.Nil(t, m.guard, "opened on use")
		serve(old, request("GET /a"))
		shared := m.guard
		require.NotNil(t, shared)
		set.Replace(parsed(t, "deadline: 3s\n"+rules))
		serve(m.Now(), request("GET /b"))
		f.Latency.Store(int64(time.Minute))
		begin := time.Now()
		serve(old, request("GET /b"))
		assert.Equal(t, 3*time.Second, time.Since(begin))
		assert.Same(t, shared, m.guard)
		f.Latency.Store(0)
		time.Sleep(2 * time.Minute)
	})
}

// Of requests that read an older file meanwhile.
func TestMiddlewares_ConcurrentRequests_AgreeOnTheNewestFile(t *testing.T) {
	set := new(Set)
	set.Replace(parsed(t, one("ban: true")))
	m := middlewares(set, offline)
	for range 200 {
		newest := parsed(t, one("key: ip, limits: 1/s"))
		var requests sync.WaitGroup
		for range 4 {
			requests.Go(func() { m.Now() })
		}
		set.Replace(newest)
		v := m.Now()
		requests.Wait()
		assert.Same(t, newest, v.File)
		assert.Same(t, v, m.Now())
	}
}
