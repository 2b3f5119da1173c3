package grpclimit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/policy/policytest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

func TestUnary_NewPolicy_IsShownAndHasShare(t *testing.T) {
	guardtest.Run(t, func(f *redistest.Fixture, client *rratelimiter.Client) {
		policytest.Register(f)
		novel := policytest.Novel{FixedWindow: policytest.Window}
		calls := unary(f, new(service), perIP(client, novel), grpclimit.OnFailure(grpclimit.Local(0.5)))
		assert.Equal(f, "OK", get(f, calls))
		f.Latency.Store(int64(time.Minute))
		assert.Equal(f, "OK", get(f, calls))
		assert.Contains(f, get(f, calls), "novel")
	})
}

// An incomplete policy is an error with the reason; it does not become a limit without a share.
func TestUnary_IncompletePolicy_IsAnError(t *testing.T) {
	guardtest.Run(t, func(f *redistest.Fixture, client *rratelimiter.Client) {
		policytest.Register(f)
		incomplete := policytest.Incomplete{FixedWindow: policytest.Window}
		for want, open := range map[string]func(){
			`grpclimit: Each: name "api": `: func() { perIP(client, incomplete) },
			"grpclimit: Policies: ":         func() { grpclimit.Policies(incomplete) },
			"grpclimit: Describe: ":         func() { grpclimit.Describe(incomplete) },
		} {
			assert.PanicsWithValue(f, want+"rratelimiter: invalid rate: policy 1: incomplete describes no local share", open)
		}
	})
}
