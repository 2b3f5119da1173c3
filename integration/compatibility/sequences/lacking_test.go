package sequences_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

// served reports whether the server has what a call needs. If it has not, each side reports this
// when it makes the call, and nothing of its limiter changes.
func served(ctx context.Context, t *testing.T, redis rueidis.Client, server servers.Version, call calls.Call,
	sides map[calls.Side]state.Keys) bool {
	t.Helper()
	for side, keys := range sides {
		need, some := calls.Needs(side, call.Op)
		if !some || server.Has(need) {
			return true
		}
		before, err := state.Read(ctx, redis, keys)
		require.NoError(t, err)
		reply, err := side.Do(ctx, call)
		if errors.Is(err, oracle.ErrUnsupported) {
			continue
		}
		require.NoError(t, err)
		want := []calls.Reply{calls.Lacking}
		if side.String() == "Go" && slices.Contains([]calls.Op{calls.Copy, calls.CopyAndReplace}, call.Op) {
			want = append(want, "false", calls.NoLimiter) // where there is nothing to copy, the server is not asked to
		}
		require.Contains(t, want, reply, "%v, %v: %v", server, side, call)
		after, err := state.Read(ctx, redis, keys)
		require.NoError(t, err)
		require.Empty(t, state.Differences(before, after, slack),
			"%v: a call that the server refuses changes nothing: %v", side, call)
	}
	return false
}
