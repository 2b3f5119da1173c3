package receipt

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSlot_Receipts_OnlyOneOfThePermitsCounts(t *testing.T) {
	refund := func(context.Context, int64) error { return nil }
	for name, test := range map[string]struct {
		left []Receipt
		want int64
	}{
		"none":            {nil, 0},
		"one":             {[]Receipt{{3, refund, nil, nil}}, 3},
		"without refund":  {[]Receipt{{3, nil, nil, nil}}, 0},
		"and one without": {[]Receipt{{3, nil, nil, nil}, {3, refund, nil, nil}}, 3},
		"other permits":   {[]Receipt{{4, refund, nil, nil}}, 0},
		"of two limiters": {[]Receipt{{3, refund, nil, nil}, {3, refund, nil, nil}}, 0},
	} {
		slot := Collect(t.Context())
		for _, r := range test.left {
			SlotOf(context.WithoutCancel(slot)).Put(r)
		}
		got := slot.Of(3)
		assert.Equal(t, test.want, got.Permits, name)
		assert.Equal(t, test.want > 0, got.Refund != nil, name)
	}
	none := SlotOf(t.Context())
	assert.Nil(t, none)
	none.Put(Receipt{1, refund, nil, nil})
}
