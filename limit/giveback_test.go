package limit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNothingIsGivenBackTwice: calls of clocks that are behind one another, some of which go back. What goes for one comes back
// at once, and never is more free than what the others have left.
func TestNothingIsGivenBackTwice(t *testing.T) {
	type grant struct{ at, dated, permits int64 }
	for _, test := range []struct {
		policy  Policy
		newest  func(b *bench) string // the entry that counts what was taken last
		counted int64                 // how many entries before the newest count
		entry   int64                 // microseconds that one counts
	}{
		{SlidingLog{20, time.Second}, func(b *bench) string {
			log, err := b.redis.List("{name}:log:1000")
			require.NoError(b, err)
			return strings.Fields(log[0])[1]
		}, 999, 1000},
		{SlidingWindow{20, time.Second, 10}, func(b *bench) string {
			return strings.Fields(b.redis.HGet("{name}:sliding:1000:10", "m"))[2]
		}, 10, 100_000},
	} {
		t.Run(fmt.Sprintf("%T", test.policy), func(t *testing.T) {
			b := newBench(t)
			b.back = true
			l := New(b.client, "name", test.policy)
			random := rand.New(rand.NewPCG(11, 12))
			var grants []grant
			taken := func() (sum int64) { // by all whose permits are not back
				for _, g := range grants {
					if g.at >= grants[len(grants)-1].at-test.counted {
						sum += g.permits
					}
				}
				return sum
			}
			overtaken, back := 0, 0
			for range 2 * steps {
				b.pass(micros(random.Int64N(100_000)))
				behind := micros(random.Int64N(1+random.Int64N(300_000)) / 1000 * 1000)
				b.pass(-behind)
				n := 1 + random.Int64N(6)
				ok, err := l.TryAcquire(t.Context(), n)
				require.NoError(t, err)
				if ok {
					at, err := strconv.ParseInt(test.newest(b), 10, 64)
					require.NoError(t, err)
					grants = append(grants, grant{at, b.now, n})
					require.LessOrEqual(t, taken(), int64(20))
					if len(grants) > 1 && behind > 0 {
						overtaken++
					}
				}
				b.pass(behind)
				if len(grants) > 1 && random.IntN(3) == 0 {
					// One of the last, but not the newest, whose time tells how late it is.
					which := len(grants) - 2 - random.IntN(min(5, len(grants)-1))
					before, err := l.Peek(t.Context())
					require.NoError(t, err)
					after := b.dated(l, grants[which].at*test.entry, grants[which].permits)
					// Where it has left by a clock that is ahead, it is back already.
					if b.now-grants[which].dated < 500_000 {
						assert.Equal(t, grants[which].permits, after.Remaining-before[0].Remaining)
						back++
					}
					grants = slices.Delete(grants, which, which+1)
				}
			}
			assert.Greater(t, overtaken, steps/4)
			assert.Greater(t, back, steps/4)
		})
	}
}
