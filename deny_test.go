package rratelimiter

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	inmemory "github.com/rratelimiter/rratelimiter/internal/bubble"
	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// changed is a change of the limiter by this client, of which Redis is not asked.
func (l *Limiter) changed(ctx context.Context) {
	_, _ = engine.Changing(ctx, l.wire.client.engine, l.wire.keys[:1], func(context.Context) (any, error) { return nil, nil })
}

// TestWhatChangesWhileADenialIsOnItsWayIsNotRemembered: the version that counts is that from before the call.
func TestWhatChangesWhileADenialIsOnItsWayIsNotRemembered(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour}, WithDenialCache(time.Hour))
		b.Take(l, 10)
		b.Latency.Store(int64(100 * time.Millisecond))
		time.AfterFunc(50*time.Millisecond, func() { l.changed(b.Context()) })
		b.Full(l, 1)
		pass(10 * second)
		_, denied := b.remembered(l, 1)
		assert.False(b, denied)
		b.Latency.Store(0)
		b.Full(l, 1)
		pass(second)
		_, denied = b.remembered(l, 1)
		assert.True(b, denied)
	})
}

// TestTheFewestThatACallDeniedAreRemembered, where it denied several.
func TestTheFewestThatACallDeniedAreRemembered(t *testing.T) {
	for name, wants := range map[string][]int64{"first": {4, 5, 6}, "in the middle": {6, 4, 5}, "last": {6, 5, 4}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				l := b.limiter(Rate{Permits: 10, Interval: time.Hour}, WithDenialCache(time.Hour))
				b.Take(l, 7)
				b.Latency.Store(int64(10 * time.Millisecond))
				inmemory.Crowd(2+len(wants), func(i int) (Decision, error) {
					if i < 2 { // their calls are in flight while the others gather
						return l.Take(b.Context(), 11)
					}
					return l.Take(b.Context(), wants[i-2])
				})
				pass(second)
				for _, permits := range wants {
					_, denied := b.remembered(l, permits)
					assert.True(b, denied, permits)
				}
				_, denied := b.remembered(l, 3)
				assert.False(b, denied)
			})
		})
	}
}
