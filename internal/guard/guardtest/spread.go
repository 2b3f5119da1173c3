package guardtest

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

func least(int64) int64  { return 0 }
func most(n int64) int64 { return n - 1 }

// A reply may round its time up to a second.
func testSpread(t *testing.T, m Middleware) {
	for name, c := range map[string]struct {
		s      Settings
		random func(int64) int64
		status int
		want   time.Duration
	}{
		"off":         {Settings{Each: hour(1)}, most, 429, time.Hour},
		"least":       {Settings{Each: hour(1), Spread: 10 * time.Second}, least, 429, time.Hour},
		"most":        {Settings{Each: hour(1), Spread: 10 * time.Second}, most, 429, time.Hour + 10*time.Second},
		"failure":     {Settings{Err: errors.New("down"), Spread: 10 * time.Second}, most, 503, 11 * time.Second},
		"never":       {Settings{Each: hour(1), Cost: func() int64 { return 2 }, Spread: time.Hour}, most, 429, 0},
		"invalid":     {Settings{Each: hour(1), Cost: func() int64 { return -1 }, Spread: time.Hour}, most, 400, 0},
		"an overflow": {Settings{Each: hour(1), Spread: math.MaxInt64}, most, 429, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
				c.s.Client, c.s.Random = client, c.random
				server := m.Server(c.s)
				if c.status == 429 && c.want > 0 {
					require.Equal(t, 200, server.get(f).Status)
				}
				reply := server.get(f)
				assert.Equal(t, c.status, reply.Status)
				assert.Equal(t, c.want, reply.RetryAfter.Round(time.Second))
			})
		})
	}
}

func testSpreadOfMany(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		minute := []limit.Policy{limit.FixedWindow{Permits: 1, Interval: time.Minute}}
		server := m.Server(Settings{Client: client, Each: minute, Spread: 30 * time.Second})
		require.Equal(t, 200, server.get(f).Status)
		times := make(map[time.Duration]bool)
		for range 100 {
			after := server.get(f).RetryAfter
			assert.GreaterOrEqual(t, after, time.Minute)
			assert.LessOrEqual(t, after, 90*time.Second)
			times[after] = true
		}
		assert.Greater(t, len(times), 10)
	})
}
