package receipt

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestSettle_Cost_IsRefundedOrCharged: by the grant's own calls, and with nothing to settle by none.
func TestSettle_Cost_IsRefundedOrCharged(t *testing.T) {
	var got []int64
	call := func(_ context.Context, permits int64) error {
		got = append(got, permits)
		return nil
	}
	local := func(more int64) { got = append(got, 100+more) }
	for name, test := range map[string]struct {
		receipt Receipt
		charge  Charge
		cost    int64
		want    []int64
		err     error
	}{
		"less":                   {Receipt{3, call, nil, nil}, nil, 1, []int64{2}, nil},
		"more":                   {Receipt{3, nil, nil, nil}, call, 5, []int64{2}, nil},
		"the same":               {Receipt{3, nil, nil, nil}, nil, 3, nil, nil},
		"less, without a refund": {Receipt{3, nil, nil, nil}, call, 1, nil, errors.ErrUnsupported},
		"more, without a charge": {Receipt{3, call, nil, nil}, nil, 4, nil, errors.ErrUnsupported},
		"less, local":            {Receipt{3, nil, local, nil}, nil, 1, []int64{98}, nil},
		"more, local":            {Receipt{3, nil, local, nil}, call, 4, []int64{101}, nil},
	} {
		got = nil
		assert.ErrorIs(t, test.receipt.Settle(t.Context(), test.cost, "", test.charge), test.err, name)
		assert.Equal(t, test.want, got, name)
	}
}
