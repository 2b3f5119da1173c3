package calls_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

// Each release of Redisson runs the stories, and calls that no story has.
func TestCalls_EveryRelease_GoAndJavaAgree(t *testing.T) {
	eachVersion(t, func(t *testing.T, w *fixture) {
		t.Run("InTurn", w.inTurn)
		t.Run("OtherLibrarysGrants", w.otherLibrarysGrants)
		t.Run("ClientsHaveOwnState", w.clientsHaveOwnState)
		t.Run("Waits", w.waits)
	})
}

func (w *fixture) inTurn(t *testing.T) {
	for _, s := range stories {
		for _, client := range []bool{false, true} {
			kind := map[bool]string{false: "overall", true: "per client"}[client]
			t.Run(fmt.Sprintf("%s/%s", s.name, kind), func(t *testing.T) {
				name := w.version + "/" + s.name + "/" + kind
				golang, java := w.libraries(name + "/go first")
				w.play(t, s, name+"/go first", client, golang, java)
				golang, java = w.libraries(name + "/java first")
				w.play(t, s, name+"/java first", client, java, golang)
			})
		}
	}
	w.report(t)
}

// Each library reads the grants of the other.
func (w *fixture) otherLibrarysGrants(t *testing.T) {
	ctx, name := t.Context(), w.version+"/other library"
	keys := state.KeysOf(name, w.java.ID())
	golang, java := w.libraries(name)
	for _, step := range []struct {
		by   calls.Library
		call calls.Call
		want calls.Reply
	}{
		{java, setTen(calls.SetRate), calls.Done},
		{java, calls.Of(calls.TryAcquire, 9), "true"},
		{golang, calls.Of(calls.TryAcquire, 9), "true"},
		{java, calls.Of(calls.TryAcquire, 9), "true"},
		{golang, calls.Of(calls.TryAcquire, 9), "true"},
	} {
		got, err := step.by.Do(ctx, step.call)
		require.NoError(t, err)
		require.Equal(t, step.want, got, "%v: %v", step.by, step.call)
		s, err := state.Read(ctx, w.redis, keys)
		require.NoError(t, err)
		t.Logf("%v: %v: %v", step.by, step.call, s)
		require.NoError(t, state.Age(ctx, w.redis, keys, 2*time.Hour))
	}
}

// Clients with different ids share the rate and no state.
func (w *fixture) clientsHaveOwnState(t *testing.T) {
	ctx := t.Context()
	l := w.own.Limiter(w.version + "/clients")
	golang, java := calls.Go(l), calls.Java(w.java.Limiter(l.Name()))
	do := func(by calls.Library, call calls.Call, want calls.Reply) {
		t.Helper()
		got, err := by.Do(ctx, call)
		require.NoError(t, err)
		require.Equal(t, want, got, "%v: %v", by, call)
	}
	requireState := func(inGo, inJava string) {
		t.Helper()
		for id, want := range map[string]string{w.own.ID(): inGo, w.java.ID(): inJava} {
			s, err := state.Read(ctx, w.redis, state.KeysOf(l.Name(), id))
			require.NoError(t, err)
			shortenTTL(&s, &s.Client.ValueTTL)
			shortenTTL(&s, &s.Client.GrantsTTL)
			s.Config = nil
			require.Equal(t, want, s.String())
		}
	}
	call := setTen(calls.TrySetRate)
	call.PerClient = true
	do(java, call, "true")
	do(golang, call, "false")
	do(golang, calls.Of(calls.TryAcquire, 7), "true")
	requireState("client value 3; client permits 7@0s", "nothing")
	do(java, calls.Of(calls.TryAcquire, 10), "true")
	requireState("client value 3; client permits 7@0s", "client value 0; client permits 10@0s")
	do(golang, calls.Of(calls.TryAcquire, 4), "false")
	do(golang, calls.Of(calls.TryAcquire, 3), "true")
	do(java, calls.Just(calls.AvailablePermits), "0")
	do(golang, calls.Just(calls.AvailablePermits), "0")
	requireState("client value 0; client permits 7@0s 3@0s", "client value 0; client permits 10@0s")

	// A new rate resets the state of the caller's client only.
	call = calls.Rate(calls.SetRate, 5, time.Hour)
	call.PerClient = true
	do(golang, call, calls.Done)
	requireState("nothing", "client value 0; client permits 10@0s")
	do(java, calls.Of(calls.TryAcquire, 1), "false")
	do(golang, calls.Of(calls.TryAcquire, 5), "true")
	do(java, call, calls.Done)
	if calls.AtLeast(w.version, "3.27.0") {
		requireState("client value 0; client permits 5@0s", "nothing")
	} else {
		requireState("client value 0; client permits 5@0s", "client value 0; client permits 10@0s")
	}
	do(java, calls.Just(calls.Delete), "true")
	requireState("client value 0; client permits 5@0s", "nothing")
}

// Each library waits, for a short time, for permits that the other one took.
func (w *fixture) waits(t *testing.T) {
	for _, order := range []string{"Go waits for Java", "Java waits for Go"} {
		t.Run(order, func(t *testing.T) {
			const interval = 300 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			waits, takes := w.libraries(w.version + "/" + order)
			if order == "Java waits for Go" {
				waits, takes = takes, waits
			}
			_, err := takes.Do(ctx, calls.Rate(calls.SetRate, 4, interval))
			require.NoError(t, err)
			for _, call := range []calls.Call{
				calls.Of(calls.Acquire, 4), calls.Just(calls.AcquireOne),
				until(calls.TryAcquireUntil, 4, 10*time.Second), until(calls.TryAcquireOneUntil, 0, 10*time.Second),
			} {
				// No permit is free when the wait begins, so it cannot end before the interval does.
				_, err := takes.Do(ctx, calls.Of(calls.Acquire, 4))
				require.NoError(t, err)
				got, err := waits.Do(ctx, call)
				require.NoError(t, err, call)
				require.Contains(t, []calls.Reply{"true", calls.Done}, got, call)
				s, err := state.Read(ctx, w.redis, state.KeysOf(w.version+"/"+order, w.java.ID()))
				require.NoError(t, err)
				require.Len(t, s.Overall.Grants, 1, "the first grant has expired: %v", s)
			}
		})
	}
}

// Every call has a story.
func TestCalls_Stories_CoverEveryCall(t *testing.T) {
	covered := make(map[calls.Op]bool)
	for _, s := range stories {
		for _, st := range s.steps {
			covered[st.call.Op] = true
		}
	}
	for _, op := range []calls.Op{calls.Copy, calls.CopyAndReplace, calls.Take, calls.SetRate, calls.SetRateArgs} {
		covered[op] = true // in package sequences, which compares two limiters, and has a model of them
	}
	for _, op := range calls.Ops {
		assert.True(t, covered[op], op)
	}
}
