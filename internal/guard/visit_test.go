package guard

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
)

// owes is a limiter that can be charged.
type owes struct{ *redis }

func (owes) Charge(context.Context, int64) (rratelimiter.Decision, error) {
	return rratelimiter.Decision{}, nil
}

// The handler gets the error from Settle.
func TestSettle_CostThatNoCallCanCharge_Fails(t *testing.T) {
	v := NewVisit(t.Context(), New(Closed, deadline, nil), Request{Limiter: owes{}, Permits: 1}, Answer{Result: Acquired},
		0)
	assert.ErrorIs(t, v.Settle(math.MaxInt64), rratelimiter.ErrInvalidPermits)
	assert.ErrorIs(t, v.Settle(maxPermits+2), rratelimiter.ErrInvalidPermits)
	assert.NoError(t, v.Settle(maxPermits+1))
}
