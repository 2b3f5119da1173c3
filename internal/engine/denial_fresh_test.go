package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

func TestDenials_SeveralDenied_SmallestIsStored(t *testing.T) {
	for name, wants := range map[string][]int64{"first": {4, 5, 6}, "in the middle": {6, 4, 5}, "last": {6, 5, 4}} {
		runWithServer(t, name, func(f *fixture) {
			l := f.open(Settings{Denials: time.Hour}, 10, time.Hour)
			f.Take(l, 7)
			f.Latency.Store(int64(10 * time.Millisecond))
			redistest.Crowd(2+len(wants), func(i int) (Result, error) {
				if i < 2 { // their calls are in flight while the others arrive
					return l.Take(f.Context(), 11)
				}
				return l.Take(f.Context(), wants[i-2])
			})
			pass(second)
			for _, permits := range wants {
				_, denied := f.fromMemory(l, permits)
				assert.True(f, denied, permits)
			}
			_, denied := f.fromMemory(l, 3)
			assert.False(f, denied)
		})
	}
}

// TestDenials_CallGrantsAndDenies_DenialIsStored: it counts the grants of its own call.
func TestDenials_CallGrantsAndDenies_DenialIsStored(t *testing.T) {
	withServer(t, func(f *fixture) {
		l := f.open(Settings{Denials: time.Hour}, 10, time.Hour)
		f.Take(l, 7)
		f.Latency.Store(int64(10 * time.Millisecond))
		answers, _ := redistest.Crowd(4, func(i int) (Result, error) {
			// The calls of the first two are in flight while the others arrive.
			return l.Take(f.Context(), []int64{11, 11, 2, 3}[i])
		})
		require.True(f, answers[2].Allowed)
		require.False(f, answers[3].Allowed)
		pass(second)
		d, denied := f.fromMemory(l, 3)
		assert.True(f, denied)
		assert.EqualValues(f, 1, d.Remaining)
	})
}
