package main

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
