package oracle_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// The captured acquire script takes permits again when it runs with its own keys and arguments.
func TestCaptureScript_TryAcquire_CanBeReplayed(t *testing.T) {
	server := servers.Single(t)
	l := oracle.Start(t, "4.7.0", oracle.Single(server.Addr())).Limiter("captured")
	_, err := l.TrySetRate(t.Context(), oracle.Rate{Permits: 10, Interval: time.Hour})
	require.NoError(t, err)
	// Twice: the second time the client believes that the server has the script.
	for range 2 {
		script, keys, args, err := oracle.CaptureScript(t.Context(), server.Addr(), func() {
			granted, err := l.TryAcquire(t.Context(), 2)
			assert.NoError(t, err)
			assert.True(t, granted)
		})
		require.NoError(t, err)
		require.NotEmpty(t, script)
		require.Len(t, keys, 5)
		require.Equal(t, l.Name(), keys[0])
		require.Equal(t, "2", args[0])
		require.Greater(t, len(args), 2)
		require.Contains(t, []int{8, 16}, len(args[2]), "the random bytes")

		eval := append([]string{"EVAL", script, strconv.Itoa(len(keys))}, append(keys, args...)...)
		_, err = server.Do(t.Context(), eval...)
		// A grant replies nil, which rueidis returns as an error.
		require.True(t, rueidis.IsRedisNil(err), "%v", err)
	}
	free, err := l.AvailablePermits(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, free)
}

func TestCaptureScript_NoScript_Fails(t *testing.T) {
	server := servers.Single(t)
	_, _, _, err := oracle.CaptureScript(t.Context(), server.Addr(), func() {})
	require.ErrorContains(t, err, "no script was run")
}

func TestCaptureScript_ContextCancelled_Fails(t *testing.T) {
	server := servers.Single(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, _, _, err := oracle.CaptureScript(ctx, server.Addr(), cancel)
	require.Error(t, err)
}
