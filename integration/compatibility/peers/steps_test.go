// Package peers compares the policies of package limit with the libraries that define them, on
// settable clocks.
package peers

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/clocked"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
)

// steps is the number of compared calls of each policy: POLICY_STEPS, by default 1,000.
var steps = int(env.Number("POLICY_STEPS", 1000))

// persist removes the expiry of a key, which the server's clock would decide.
func persist(t *testing.T, s *clocked.Server, key string) {
	t.Helper()
	require.NoError(t, s.Redis.Do(t.Context(), s.Redis.B().Persist().Key(key).Build()).Error())
}
