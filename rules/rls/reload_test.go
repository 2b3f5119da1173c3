package rls_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/rules/rls"
)

// twoLimits has two descriptors that are decided in two calls, with limits of a name.
const twoLimits = `
domain: d
descriptors:
  - {key: a, rate_limit: {name: %[1]s, unit: hour, requests_per_unit: 1000}}
  - {key: b, shadow_mode: true, rate_limit: {name: %[1]s, unit: hour, requests_per_unit: 1000}}
`

// TestShouldRateLimit_RequestsUnderWay_AreDecidedByTheOldFile: one request never meets rules of two
// files. All 100 requests are held after a decision while the file is replaced.
func TestShouldRateLimit_RequestsUnderWay_AreDecidedByTheOldFile(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, _ *rratelimiter.Client) {
		replaced := make(chan struct{})
		client := rratelimiter.New(f.Conn, rratelimiter.WithObserver(&rratelimiter.Observer{
			Decision: func(context.Context, rratelimiter.DecisionInfo) { <-replaced },
		}))
		path := filepath.Join(t.TempDir(), "rules.yaml")
		write := func(name string) { require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, twoLimits, name), 0o600)) }
		write("old")
		s := newServer(t, client, "", func(c *rls.Config) { c.Path = path })
		var mu sync.Mutex
		decided := make(map[string]int) // by the limit's name
		send := func() {
			response, err := s.ShouldRateLimit(context.Background(), request(t, "d | a=1 | b=1"))
			assert.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			for _, status := range response.GetStatuses() {
				decided[status.GetCurrentLimit().GetName()]++
			}
		}
		var requests sync.WaitGroup
		for range 100 {
			requests.Go(send)
		}
		synctest.Wait()
		write("new")
		require.NoError(t, s.Reload())
		assert.Empty(t, decided, "all requests are under way")
		close(replaced)
		requests.Wait()
		assert.Equal(t, map[string]int{"old": 200}, decided)
		send()
		assert.Equal(t, map[string]int{"old": 200, "new": 2}, decided)
	})
}
