package main

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// Each call gets a context of the kind that its scenario names.
func TestCaller_ContextKind_GetsItsContext(t *testing.T) {
	for _, c := range []struct {
		kind          contextKind
		ends, hasTime bool
	}{{endless, false, false}, {deadline, true, true}, {cancellable, true, false}} {
		t.Run(c.kind.String(), func(t *testing.T) {
			var counting, stop atomic.Bool
			var last context.Context
			s := &session{take: func(ctx context.Context, _, _ int, _ int64) (bool, error) {
				require.NoError(t, ctx.Err())
				_, hasTime := ctx.Deadline()
				require.Equal(t, c.hasTime, hasTime)
				require.Equal(t, c.ends, ctx.Done() != nil)
				require.False(t, c.ends && ctx == last, "one for each call")
				stop.Store(last != nil)
				last = ctx
				return true, nil
			}}
			new(caller).call(context.Background(), s, 0, load{callers: 1, names: names(1), maxPermits: 1, context: c.kind},
				&counting, &stop)
			if c.ends {
				require.Error(t, last.Err(), "cancelled after its call")
			}
		})
	}
}

// With many callers one call in timedOf is timed, but every call counts.
func TestCaller_ManyCallers_TimesSomeCalls(t *testing.T) {
	const calls = 10 * timedOf
	for _, c := range []struct {
		name    string
		callers int
		timed   int
	}{
		{"few callers", manyCallers - 1, calls},
		{"many callers", manyCallers, calls / timedOf},
	} {
		t.Run(c.name, func(t *testing.T) {
			var counting, stop atomic.Bool
			counting.Store(true)
			n := 0
			s := &session{take: func(context.Context, int, int, int64) (bool, error) {
				n++
				stop.Store(n == calls)
				return true, nil
			}}
			var one caller
			start := time.Now()
			one.call(t.Context(), s, 3, load{callers: c.callers, names: names(1), maxPermits: 1}, &counting, &stop)
			require.EqualValues(t, calls, one.decisions)
			require.EqualValues(t, calls, one.permits)
			require.EqualValues(t, c.timed, one.latency.calls())
			require.LessOrEqual(t, one.latency.quantile(1), time.Since(start))
		})
	}
}

// One call with a context that can end puts a connection of rueidis into
// pipelining.
func TestExhaust_Context_CannotEnd(t *testing.T) {
	calls := 0
	s := &session{take: func(ctx context.Context, _, _ int, _ int64) (bool, error) {
		require.Nil(t, ctx.Done())
		calls++
		return calls <= 3, nil
	}}
	permits, err := exhaust(t.Context(), s, load{names: names(1), limit: scarce})
	require.NoError(t, err)
	require.EqualValues(t, 3, permits)
	require.Equal(t, 4, calls)
}

// Every peer works with its settings, and none fails with several callers.
func TestPeers_EachSetting_GrantsAndDenies(t *testing.T) {
	addr := servers.Single(t).Addr()
	redis, err := dial(addr)
	require.NoError(t, err)
	defer redis.Close()
	b := &bench{server: &server{redis}, script: new(acquireScript), warmup: 20 * time.Millisecond,
		length: 20 * time.Millisecond}
	for _, s := range contenders {
		if !slices.Contains(goLibraries, s.key) {
			continue
		}
		for _, expect := range []expectation{allGranted, allDenied} {
			t.Run(s.key+", "+expect.String(), func(t *testing.T) {
				l := load{addr: addr, callers: 12, names: names(1), maxPermits: 1, limit: generous, expect: expect}
				if expect == allDenied {
					l.limit = scarce
				}
				f, err := b.measure(t.Context(), s, l)
				require.NoError(t, err)
				require.NotContains(t, f.refused, "errors")
				require.NotContains(t, f.refused, "granted")
				require.NotContains(t, f.refused, "denied")
			})
		}
	}
}
