package calls_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

// Go and each release of Redisson make every call on limiters of both types. Package sequences
// compares the state after random calls.
func TestCalls_EveryRelease_GoAndJavaAgree(t *testing.T) {
	server := servers.Single(t)
	redis := server.Client(t)
	version := servers.VersionOf(t, redis)
	for _, release := range oracle.VersionsToTest() {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			java, golang := oracle.Start(t, release, oracle.Single(server.Addr())), rratelimiter.New(redis)
			calls.Every(t, golang, java, version, release, false)
			calls.Every(t, golang, java, version, release, true)
		})
	}
}

// Clients with different ids share the rate of a PER_CLIENT limiter and no state.
func TestCalls_PerClient_ClientsHaveOwnState(t *testing.T) {
	ctx, server := t.Context(), servers.Single(t)
	redis := server.Client(t)
	r, client := oracle.Start(t, "4.7.0", oracle.Single(server.Addr())), rratelimiter.New(redis)
	golang, java := calls.Go(client.Limiter("clients")), calls.Java(r.Limiter("clients"))
	do := func(by calls.Library, call calls.Call, want calls.Reply) {
		t.Helper()
		got, err := by.Do(ctx, call)
		require.NoError(t, err)
		require.Equal(t, want, got, "%v: %v", by, call)
	}
	requireState := func(inGo, inJava string) {
		t.Helper()
		for id, want := range map[string]string{client.ID(): inGo, r.ID(): inJava} {
			s, err := state.Read(ctx, redis, state.KeysOf("clients", id))
			require.NoError(t, err)
			s.Client.ValueTTL, s.Client.GrantsTTL, s.Config = state.Forever, state.Forever, nil
			require.Equal(t, want, s.String())
		}
	}
	rate := calls.Rate(calls.TrySetRate, 10, time.Hour)
	rate.PerClient = true
	do(java, rate, "true")
	do(golang, rate, "false")
	do(golang, calls.Of(calls.TryAcquire, 7), "true")
	requireState("client value 3; client permits 7@0s", "nothing")
	do(java, calls.Of(calls.TryAcquire, 10), "true")
	requireState("client value 3; client permits 7@0s", "client value 0; client permits 10@0s")
	do(golang, calls.Of(calls.TryAcquire, 4), "false")
	do(golang, calls.Of(calls.TryAcquire, 3), "true")
	do(java, calls.Just(calls.AvailablePermits), "0")
	do(golang, calls.Just(calls.AvailablePermits), "0")

	// A new rate resets the state of the caller's client only.
	rate.Op, rate.Permits = calls.SetRate, 5
	do(golang, rate, calls.Done)
	requireState("nothing", "client value 0; client permits 10@0s")
	do(java, calls.Of(calls.TryAcquire, 1), "false")
	do(golang, calls.Of(calls.TryAcquire, 5), "true")
	do(java, rate, calls.Done)
	requireState("client value 0; client permits 5@0s", "nothing")
	do(java, calls.Just(calls.Delete), "true")
	requireState("client value 0; client permits 5@0s", "nothing")
}
