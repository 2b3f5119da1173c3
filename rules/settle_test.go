package rules

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestSettle_LaterWindow_RefundsNothing: slow requests settle with 0 in a later window, and requests
// that wait for a second rule leave then. They free no permits of that window.
func TestSettle_LaterWindow_RefundsNothing(t *testing.T) {
	const logins, rounds, pace = 5, 10, 1200 * time.Millisecond
	for name, limits := range map[string]string{
		"fixed window": "{policy: fixed_window, rate: 5/s}", "sliding log": "{policy: sliding_log, rate: 5/s}",
		"redisson": "{redisson: login, rate: 5/s}",
	} {
		for _, leaves := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
					set := parsed(t, `
match: all
defaults: {key: all}
rules:
  - {name: login, limits: `+limits+`}
  - {name: slow, match: /slow, limits: {policy: fixed_window, rate: 1000/h}, deadline: 1s}
  - {name: queue, match: /queue, limits: {policy: fixed_window, rate: 1/h}, wait: 2h, deadline: 2s}`)
					quota := client.Limiter("login")
					assert.NoError(t, quota.SetRate(t.Context(), rratelimiter.Rate{Permits: logins, Interval: time.Second}))
					end := make(chan struct{})
					handler := set.Middleware(client)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
						if r.URL.Path == "/slow" {
							<-end
							assert.NoError(t, Settle(r.Context(), 0))
						}
					}))
					path := "GET /slow"
					if leaves {
						path = "GET /queue"
						assert.Equal(t, good, status(handler, path), "the permit of the queue")
						time.Sleep(pace)
					}
					ctx, leave := context.WithCancel(t.Context())
					var all sync.WaitGroup
					for range rounds {
						for range logins {
							all.Go(func() { serve(handler, request(path).WithContext(ctx)) })
							synctest.Wait()
						}
						time.Sleep(pace)
					}
					passed := 0
					attack := func() {
						for range 2 * rounds * logins {
							if status(handler, "GET /") == good {
								passed++
							}
						}
					}
					attack()
					leave()
					close(end)
					all.Wait()
					attack()
					assert.Equal(t, logins, passed)
					time.Sleep(time.Minute)
				})
			})
		}
	}
}
