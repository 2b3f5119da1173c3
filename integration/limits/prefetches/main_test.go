// Package prefetches_test runs callers with prefetches, in several Clients, and Redisson on one limiter. It
// checks that the limiter keeps its rate while Redis fails, and that a prefetch ends while its process is
// stopped.
//
// PREFETCH_LOAD is the duration of each load, by default 3s.
package prefetches_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/leaks"
)

// TestMain runs the tests, or in a process of its own a member.
func TestMain(m *testing.M) {
	addr := os.Getenv(memberEnv)
	if addr == "" {
		os.Exit(leaks.Main(m))
	}
	if err := member(addr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const (
	name     = "{shop}:prefetched"
	rate     = 4000
	interval = time.Second
	prefetch = 50 * time.Millisecond

	settleTimeout = 60 * time.Second
)

// loadTime is the duration of a load.
var loadTime = env.Duration("PREFETCH_LOAD", 3*time.Second)

func single(addr string) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true}
}

// setRate sets the rate of a limiter, and returns it without prefetches.
func setRate(t *testing.T, redis rueidis.Client, r rratelimiter.Rate) *rratelimiter.Limiter {
	t.Helper()
	l := rratelimiter.New(redis).Limiter(name)
	require.NoError(t, l.SetRate(t.Context(), r))
	return l
}
