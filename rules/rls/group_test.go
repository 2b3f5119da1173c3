package rls

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// A refund of one permit would leave the others taken, and free one of them.
func TestOperation_Overdraw_IsNotRefundedInPart(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		l := limit.New(rratelimiter.New(f.Conn), "name", limit.FixedWindow{Permits: 10, Interval: time.Hour})
		g := outage.New(time.Second, nil)
		for _, hits := range []int64{3, 9} { // the second takes more than is free
			d := outage.Demand{Limiter: newOperation(l, take, hits), Permits: 1, Each: true}
			a := g.Decide(t.Context(), d)
			require.NoError(t, a.Err)
			assert.ErrorIs(t, g.Settle(t.Context(), d.Limiter, a, 0), map[int64]error{3: errors.ErrUnsupported}[hits])
		}
		now := redistest.Peek(t, l)
		assert.Zero(t, now[0].Remaining)
		require.NoError(t, l.Release(t.Context(), 3))
		assert.EqualValues(t, 1, redistest.Peek(t, l)[0].Remaining, "12 were taken")
	})
}
