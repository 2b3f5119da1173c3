// Package leases_test runs callers with leases, in several Clients and processes, and Redisson on
// one limiter. It checks that the limiter keeps its rate: without faults, while Redis fails, and
// while a process with a lease is stopped or killed.
//
// LEASE_LOAD is the duration of each load, by default 3s.
package leases_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/suite"
)

func TestMain(m *testing.M) { suite.Processes(m, member) }

const (
	name     = "{shop}:leased"
	rate     = 4000
	interval = time.Second
	lease    = 50 * time.Millisecond

	settleTimeout = 60 * time.Second
)

// loadTime is the duration of a load.
var loadTime = env.Duration("LEASE_LOAD", 3*time.Second)

func single(addr string) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true}
}

// setRate sets the rate of a limiter, and returns it without leases.
func setRate(t *testing.T, redis rueidis.Client, r rratelimiter.Rate) *rratelimiter.Limiter {
	t.Helper()
	l := rratelimiter.New(redis).Limiter(name)
	require.NoError(t, l.SetRate(t.Context(), r))
	return l
}

// balance returns the sum of the limiter's value and grants in Redis, read atomically.
func balance(ctx context.Context, redis rueidis.Client) (int64, error) {
	const script = `
local sum = tonumber(redis.call('GET', KEYS[1]))
local grants = redis.call('ZRANGE', KEYS[2], 0, -1)
for i = 1, #grants do
  local a, b, c, d = string.byte(grants[i], -4, -1)
  sum = sum + a + b * 256 + c * 65536 + d * 16777216
end
return sum`
	return redis.Do(ctx, redis.B().Eval().Script(script).Numkeys(2).Key(name+":value",
		name+":permits").Build()).AsInt64()
}
