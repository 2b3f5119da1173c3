package calls_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
)

// withoutFeature does what a call would have come to, had the server what it needs, so that the
// story goes on.
func (w *world) withoutFeature(ctx context.Context, t *testing.T, by calls.Side, call calls.Call,
	want calls.Reply) calls.Reply {
	t.Helper()
	if call.Op != calls.ExpireTime {
		if want == "false" {
			return want
		}
		call.Op = calls.Expire
	}
	reply, err := by.Do(ctx, call)
	require.NoError(t, err, call)
	return reply
}
