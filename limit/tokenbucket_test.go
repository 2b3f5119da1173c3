package limit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestRefund_Bucket_ReturnsWhatIsStillMissing: because of the grant.
func TestRefund_Bucket_ReturnsWhatIsStillMissing(t *testing.T) {
	type step struct {
		after  time.Duration
		take   int64
		refund int // of the step with this number, from 1 on
		want   int64
	}
	for name, steps := range map[string][]step{
		"the bucket was never full": {{take: 900, want: 100}, {take: 90, want: 10},
			{after: 50 * ms, refund: 2, want: 150}},
		"refill is for older grants first": {{take: 40, want: 960}, {take: 60, want: 900},
			{after: 20 * ms, refund: 2, want: 980}},
		"the grant is repaid in part": {{take: 60, want: 940}, {after: 20 * ms, refund: 1, want: 1000}},
		"others took since": {{take: 60, want: 940}, {after: 20 * ms, take: 500, want: 460},
			{refund: 1, want: 500}},
		"more was refilled since": {{take: 60, want: 940}, {after: 20 * ms, take: 500, want: 460},
			{after: 100 * ms, refund: 1, want: 560}},
		"it was full since": {{take: 60, want: 940}, {after: 100 * ms, take: 500, want: 500},
			{refund: 1, want: 500}},
		"an older grant was refunded": {
			{take: 20, want: 980}, {take: 60, want: 920}, {take: 20, want: 900}, {after: 10 * ms, refund: 2, want: 970},
			{after: 19 * ms, take: 80, want: 909},
			{after: 10 * ms, refund: 3, want: 920},
		},
	} {
		for _, p := range []Policy{TokenBucket{1000, 1000, time.Second}, LeakyBucket{1000, 1000, time.Second}} {
			b := newBench(t)
			l := New(b.client, "name", p)
			marks := make([][]string, len(steps)+1)
			for i, s := range steps {
				b.pass(s.after)
				if s.refund > 0 {
					b.refund(l, marks[s.refund], steps[s.refund-1].take)
				} else {
					marks[i+1] = b.take(l, s.take)
				}
				assert.Equal(t, s.want, mustPeek(t, l)[0].Remaining, "%s, %T: step %d", name, p, i+1)
			}
		}
	}
}
