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

// served reports whether the server has the feature that a call needs. If not, it requires that
// each library reports this and changes nothing.
func served(ctx context.Context, t *testing.T, redis rueidis.Client, server servers.Version, call calls.Call,
	libraries map[calls.Library]state.Keys) bool {
	t.Helper()
	for library, keys := range libraries {
		need, some := calls.Needs(library, call.Op)
		if !some || server.Has(need) {
			return true
		}
		before, err := state.Read(ctx, redis, keys)
		require.NoError(t, err)
		reply, err := library.Do(ctx, call)
		if errors.Is(err, oracle.ErrUnsupported) {
			continue
		}
		require.NoError(t, err)
		want := []calls.Reply{calls.Lacking}
		if library.String() == "Go" && slices.Contains([]calls.Op{calls.Copy, calls.CopyAndReplace}, call.Op) {
			want = append(want, "false", calls.NoLimiter) // without a limiter, the script does not reach COPY
		}
		require.Contains(t, want, reply, "%v, %v: %v", server, library, call)
		after, err := state.Read(ctx, redis, keys)
		require.NoError(t, err)
		require.Empty(t, state.Differences(before, after, slack),
			"%v: a call that the server rejects changes nothing: %v", library, call)
	}
	return false
}
