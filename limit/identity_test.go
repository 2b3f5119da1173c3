package limit

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNoNameSharesTheCallsOfOthers, though it is made to look like the reservations of another name, or like two names at once.
func TestNoNameSharesTheCallsOfOthers(t *testing.T) {
	inBubble(t, func(b *bubble) {
		p := TokenBucket{5, 1, time.Hour}
		one, two := New(b.client, "{a}", p), New(b.client, "{a}b", p)
		like := New(b.client, "{a}:bucket:3600000 5 1 \n{a}b", p)
		for name, pair := range map[string][2]func() (bool, error){
			"reservations": {
				func() (bool, error) { _, err := one.Reserve(b.Context(), 1); return err == nil, err },
				func() (bool, error) { return New(b.client, "reserve {a}", p).TryAcquire(b.Context(), 1) },
			},
			"two names": {
				func() (bool, error) { return Join(one, two).TryAcquire(b.Context(), 1) },
				func() (bool, error) { return like.TryAcquire(b.Context(), 1) },
			},
		} {
			b.Redis.FlushAll()
			b.Latency.Store(int64(10 * ms))
			var granted [2]atomic.Int64
			var all sync.WaitGroup
			for range 20 {
				for i, call := range pair {
					all.Go(func() {
						ok, err := call()
						assert.NoError(b, err, name)
						if ok {
							granted[i].Add(1)
						}
					})
				}
			}
			all.Wait()
			b.Latency.Store(0)
			assert.EqualValues(b, 5, granted[1].Load(), name)
			if name == "two names" {
				assert.EqualValues(b, 5, granted[0].Load())
				seen, err := two.Peek(b.Context())
				require.NoError(b, err)
				assert.Zero(b, seen[0].Remaining)
			}
		}
	})
}
