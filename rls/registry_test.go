package rls_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy/policytest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/rls"
)

func TestNew_NewPolicy_LimitsOrIsRefused(t *testing.T) {
	redistest.Run(t, func(f *redistest.Fixture) {
		policytest.Register(f)
		file := func(policy string) string {
			return "domain: edge\ndescriptors: [{key: ip, rate_limit: {requests_per_unit: 2, unit: hour, policy: " + policy + "}}]\n"
		}
		client := rratelimiter.New(f.Conn)
		s := newServer(f, client, file("novel"))
		ask := func() string { return summary(s.ShouldRateLimit(f.Context(), request(f, "edge | ip=1"))) }
		assert.Equal(f, "OK | OK 1/2 hour 3600s", ask())
		assert.Equal(f, "OK | OK 0/2 hour 3600s", ask())
		assert.Equal(f, "OVER | OVER 0/2 hour 3600s", ask())
		_, err := rls.New(rls.Config{Client: client, Path: folder(f, file("incomplete")), Log: quiet()})
		assert.ErrorContains(f, err, "incomplete describes no local share")
	})
}
