package rls_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// story is a configuration, and what is asked of it in order.
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
	asked := 0
	for _, story := range stories {
		asked += len(story.turns)
		t.Run(story.name, func(t *testing.T) {
			guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
				server := newServer(t, client, story.config)
				for i, turn := range story.turns {
					redistest.Pass(turn.pause)
					got := told(server.ShouldRateLimit(context.Background(), request(t, turn.ask)))
					assert.Equal(t, turn.want, got, "turn %d: %s", i+1, turn.ask)
				}
			})
		})
	}
	t.Logf("%d cases", asked)
}

// What is published of envoyproxy/ratelimit: matching, nesting, units, and what its fields mean.
func TestMatching(t *testing.T) { tell(t, matching) }

func TestUnits(t *testing.T) { tell(t, units) }

func TestHits(t *testing.T) { tell(t, hits) }

func TestModes(t *testing.T) { tell(t, modes) }

func TestBeyond(t *testing.T) { tell(t, beyond) }

// The tables have what they claim to have.
func TestNumberOfCases(t *testing.T) {
	n := 0
	for _, stories := range [][]story{matching, units, hits, modes} {
		for _, s := range stories {
			n += len(s.turns)
		}
	}
	require.GreaterOrEqual(t, n, 120, fmt.Sprintf("%d cases of what the original does", n))
}
