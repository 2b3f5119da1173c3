package httplimit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/policy/policytest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

func TestMiddleware_NewPolicy_IsShownAndHasShare(t *testing.T) {
	guardtest.Run(t, func(f *redistest.Fixture, client *rratelimiter.Client) {
		policytest.Register(f)
		novel := policytest.Novel{FixedWindow: policytest.Window}
		handler := httplimit.Middleware(perIP(client, novel), httplimit.OnFailure(httplimit.Local(1)))(new(ok))
		w := serve(handler, request())
		assert.Equal(f, 200, w.Code)
		assert.Equal(f, []string{`"novel";q=3;w=3600`}, w.Header()["Ratelimit-Policy"])
		assert.Equal(f, []string{`"novel";r=2;t=3600`}, w.Header()["Ratelimit"])
		f.Latency.Store(int64(time.Minute))
		w = serve(handler, request())
		assert.Equal(f, 200, w.Code)
		assert.Equal(f, []string{`"novel";q=3;w=3600`}, w.Header()["Ratelimit-Policy"])
	})
}

// An incomplete policy is an error with the reason; it does not become a limit without a share.
func TestMiddleware_IncompletePolicy_IsAnError(t *testing.T) {
	guardtest.Run(t, func(f *redistest.Fixture, client *rratelimiter.Client) {
		policytest.Register(f)
		incomplete := policytest.Incomplete{FixedWindow: policytest.Window}
		for want, open := range map[string]func(){
			`httplimit: Each: name "web": `: func() { perIP(client, incomplete) },
			"httplimit: Policies: ":         func() { httplimit.Policies(incomplete) },
			"httplimit: Describe: ":         func() { httplimit.Describe(httplimit.Named("x", incomplete)) },
		} {
			assert.PanicsWithValue(f, want+"rratelimiter: invalid rate: policy 1: incomplete describes no local share", open)
		}
	})
}
