package rls_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestShouldRateLimit_Denial_EndsTheCalls of a request.
func TestShouldRateLimit_Denial_EndsTheCalls(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		s := newServer(t, client, `
domain: x
descriptors:
  - {key: own, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: files, value: f/*, share_threshold: true, rate_limit: {unit: year, requests_per_unit: 100}}
  - {key: one, rate_limit: {unit: year, requests_per_unit: 5}}
`)
		for _, e := range []struct {
			ask   string
			want  string
			calls int64
		}{
			{"x | own=a | own=a | one=a", "OK", 2},
			{"x | own=b +2 | one=a +3", "OK", 2},
			{"x | own=b | files=f/1 | files=f/2", "OVER", 1},
			{"x | files=f/1 | files=f/2 | own=b", "OVER", 1},
			{"x | files=f/1" + strings.Repeat(" | files=f/2", 19), "OK", 1}, // equal limiters
			{"x | own=c +3 | one=b", "OVER", 1},                             // denied here: a peek
			{"x" + strings.Repeat(" | own=d", 3), "OVER", 0},
			{"x | own=b | files=f/1", "OVER", 1},
		} {
			before := f.Scripts.Load()
			got := summary(s.ShouldRateLimit(context.Background(), request(t, e.ask)))
			assert.Equal(t, e.want, strings.Fields(got)[0], e.ask)
			assert.Equal(t, e.calls, f.Scripts.Load()-before, e.ask)
		}
	})
}

// TestShouldRateLimit_ConcurrentDenials_RefundWhatTheyTook: each request takes of the shared limit
// before its own denies it.
func TestShouldRateLimit_ConcurrentDenials_RefundWhatTheyTook(t *testing.T) {
	client, _ := guardtest.Connect(t)
	s := newServer(t, client, `
domain: x
descriptors:
  - {key: own, rate_limit: {unit: year, requests_per_unit: 20}}
  - {key: files, rate_limit: {unit: year, requests_per_unit: 100}}
`)
	var callers sync.WaitGroup
	var granted atomic.Int64
	for range 50 {
		callers.Go(func() {
			answer, err := s.ShouldRateLimit(context.Background(), request(t, "x | own=a +3 | files=all"))
			if assert.NoError(t, err) && answer.GetOverallCode() == ratelimit.RateLimitResponse_OK {
				granted.Add(1)
			}
		})
	}
	callers.Wait()
	assert.EqualValues(t, 6, granted.Load())
	left := summary(s.ShouldRateLimit(context.Background(), request(t, "x | files=all +0 | own=a +0")))
	assert.Contains(t, left, "OK | OK 94/100 ")
	assert.Contains(t, left, " | OK 2/20 ")
}
