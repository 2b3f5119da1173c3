package rratelimiter

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
)

// TestWithNameMapper_MapperPanics_PanicsInItsCaller: Limiter, Rename and Copy call it before they change anything.
func TestWithNameMapper_MapperPanics_PanicsInItsCaller(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour}, WithNameMapper(func(name string) string {
			if name == "bad" {
				panic("no name")
			}
			return name
		}))
		for range 5 {
			assert.PanicsWithValue(b, "no name", func() { l.wire.client.Limiter("bad") })
			assert.PanicsWithValue(b, "no name", func() { _ = l.Rename(b.Context(), "bad") })
			assert.PanicsWithValue(b, "no name", func() { _, _ = l.Copy(b.Context(), "bad") })
		}
		b.Take(l, 10)
	})
}

// ofACluster is a client of a Redis Cluster, as far as it says.
type ofACluster struct{ rueidis.Client }

func (ofACluster) Mode() rueidis.ClientMode { return rueidis.ClientModeCluster }

// TestAClusterIsKnownByItsClient: there a name has its keys in one slot, or is refused.
func TestAClusterIsKnownByItsClient(t *testing.T) {
	inBubble(t, func(b *bubble) {
		for _, name := range []string{"limiter", "{tag}:limiter"} {
			_, err := New(ofACluster{b.Conn}).Limiter(name).Exists(b.Context())
			assert.NoError(b, err, name)
		}
		_, err := New(ofACluster{b.Conn}).Limiter("{}limiter").Exists(b.Context())
		assert.ErrorIs(b, err, ErrCrossSlot)
		_, err = New(b.Conn).Limiter("{}limiter").Exists(b.Context())
		assert.NoError(b, err)
	})
}
