package rls_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// scenario is a configuration, and requests in their order.
type scenario struct {
	name      string
	config    string
	exchanges []exchange
}

// exchange is a request after a pause, and its answer.
type exchange struct {
	pause time.Duration
	ask   string
	want  string
}

// runScenarios runs scenarios, each on a Redis of its own.
func runScenarios(t *testing.T, scenarios []scenario) {
	count := 0
	for _, s := range scenarios {
		count += len(s.exchanges)
		t.Run(s.name, func(t *testing.T) {
			guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
				server := newServer(t, client, s.config)
				for i, e := range s.exchanges {
					redistest.Pass(e.pause)
					got := summary(server.ShouldRateLimit(context.Background(), request(t, e.ask)))
					if !strings.Contains(e.want, "|") { // only the result of the request
						got, _, _ = strings.Cut(got, " |")
					}
					assert.Equal(t, e.want, got, "exchange %d: %s", i+1, e.ask)
				}
			})
		})
	}
	t.Logf("%d cases", count)
}

// As envoyproxy/ratelimit documents it.
func TestShouldRateLimit_Matching_IsThatOfTheReference(t *testing.T) { runScenarios(t, matching) }

func TestShouldRateLimit_Units_AreThoseOfTheReference(t *testing.T) { runScenarios(t, units) }

func TestShouldRateLimit_Hits_AreThoseOfTheReference(t *testing.T) { runScenarios(t, hits) }

func TestShouldRateLimit_Modes_AreThoseOfTheReference(t *testing.T) { runScenarios(t, modes) }

func TestShouldRateLimit_OwnFields_ExtendTheReference(t *testing.T) { runScenarios(t, beyond) }
