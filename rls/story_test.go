package rls_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// story is a configuration, and requests in their order.
type story struct {
	name   string
	config string
	turns  []turn
}

// turn is a request after a pause, and its answer.
type turn struct {
	pause time.Duration
	ask   string
	want  string
}

// tell runs stories, each on a Redis of its own.
func tell(t *testing.T, stories []story) {
	count := 0
	for _, story := range stories {
		count += len(story.turns)
		t.Run(story.name, func(t *testing.T) {
			guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
				server := newServer(t, client, story.config)
				for i, turn := range story.turns {
					redistest.Pass(turn.pause)
					got := summary(server.ShouldRateLimit(context.Background(), request(t, turn.ask)))
					assert.Equal(t, turn.want, got, "turn %d: %s", i+1, turn.ask)
				}
			})
		})
	}
	t.Logf("%d cases", count)
}

// As envoyproxy/ratelimit documents it.
func TestShouldRateLimit_Matching_IsThatOfTheReference(t *testing.T) { tell(t, matching) }

func TestShouldRateLimit_Units_AreThoseOfTheReference(t *testing.T) { tell(t, units) }

func TestShouldRateLimit_Hits_AreThoseOfTheReference(t *testing.T) { tell(t, hits) }

func TestShouldRateLimit_Modes_AreThoseOfTheReference(t *testing.T) { tell(t, modes) }

func TestShouldRateLimit_OwnFields_ExtendTheReference(t *testing.T) { tell(t, beyond) }
