package engine

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTotalsCountLikeNumbersWithoutAnEnd: the reference is math/big.
func TestTotalsCountLikeNumbersWithoutAnEnd(t *testing.T) {
	var sum Total
	want := new(big.Int)
	check := func() {
		t.Helper()
		for _, rate := range []int64{1, 2, 3, 4, 7, 10, 1 << 32, MostPermits - 1, MostPermits} {
			whole, rest := new(big.Int).QuoRem(new(big.Int).Sub(want, big.NewInt(1)), big.NewInt(rate), new(big.Int))
			times, last, ok := sum.Rounds(rate)
			require.Equal(t, whole.IsUint64(), ok, "%v of %d", want, rate)
			if ok {
				assert.Equal(t, whole.Uint64(), times, "%v of %d", want, rate)
				assert.Equal(t, rest.Int64()+1, last, "%v of %d", want, rate)
			}
		}
	}
	const many = 1 << 13 // times 2^53 is 2^66
	for i := range many {
		sum.Add(MostPermits)
		want.Add(want, big.NewInt(MostPermits))
		if i < 3 || i%1000 == 0 || i%2048 > 2045 || i%2048 < 2 {
			check()
		}
	}
	for _, permits := range []int64{1, 2, 9} {
		sum.Add(permits)
		want.Add(want, big.NewInt(permits))
		check()
	}
	for i := range many {
		sum.Sub(MostPermits)
		want.Sub(want, big.NewInt(MostPermits))
		if i%2048 < 3 {
			check()
		}
	}
	check()
	assert.Equal(t, Total{low: 12}, sum)
}
