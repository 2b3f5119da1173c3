package guardtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redistest/fake"
	"github.com/rratelimiter/rratelimiter/limit"
)

// A mistake of the program is no outage, and lets no request pass.
func testMistake(t *testing.T, m Middleware) {
	for name, open := range map[string]func(f *redistest.Fixture, client *rratelimiter.Client) limit.Joinable{
		"no rate": func(_ *redistest.Fixture, client *rratelimiter.Client) limit.Joinable {
			return Known{client.Limiter("new"), hour(1)}
		},
		"foreign state": func(f *redistest.Fixture, client *rratelimiter.Client) limit.Joinable {
			l := limit.New(client, "new", hour(1)...)
			f.RequireGranted(l, 1)
			for _, key := range f.Redis.Keys() {
				f.Redis.Del(key)
				_, err := f.Redis.Lpush(key, "of another program")
				require.NoError(f, err)
			}
			return l
		},
		"a limiter of a request": func(*redistest.Fixture, *rratelimiter.Client) limit.Joinable {
			return fake.Failing(fmt.Errorf("a policy: %w", rratelimiter.ErrInvalidRate), hour(1)...)
		},
	} {
		for _, mode := range []limit.FailureMode{limit.Open, limit.Closed, 1} {
			if mode == 1 && name == "no rate" {
				continue // it has no share
			}
			t.Run(fmt.Sprint(name, " ", mode), func(t *testing.T) {
				Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
					server := m.Server(Settings{
						Limiter: open(f, client), Mode: mode,
						OnRedisChange: func(string, bool, error) { t.Error("no outage") },
						Report: func(o limit.Outcome) {
							assert.Equal(t, limit.FailedClosed, o.Result)
							assert.True(t, outage.IsMistake(o.Err), "%v", o.Err)
						},
					})
					for range 3 {
						assert.Equal(t, 503, server.get(f).Status)
						time.Sleep(time.Second)
					}
				})
			})
		}
	}
}

// What Redis would never grant, an outage does not grant.
func testMistakeInAnOutage(t *testing.T, m Middleware) {
	for _, mode := range []limit.FailureMode{limit.Open, limit.Closed, 1} {
		Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
			cost := int64(1)
			defer slow(f)()
			for name, s := range map[string]Settings{
				"Each": {Client: client, Each: hour(10)},
				"All":  {Limiter: limit.New(client, "all", hour(10)...)},
			} {
				s.Mode, s.Cost, cost = mode, func() int64 { return cost }, 1
				server := m.Server(s)
				server.get(f) // begins the outage
				cost = 11
				reply := server.get(f)
				assert.Equal(t, 429, reply.Status, "%s, mode %v", name, mode)
				assert.Zero(t, reply.RetryAfter)
			}
		})
	}
}

// A request over its limit is denied as such, also if its context ends while it waits.
func testWaitIsCutShort(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		policy := limit.FixedWindow{Permits: 1, Interval: 5 * time.Second}
		server := m.Server(Settings{Limiter: limit.New(client, "a", policy), Wait: time.Minute})
		require.Equal(t, 200, server.get(f).Status)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		reply := server(ctx, "one")
		assert.Equal(t, 429, reply.Status)
		assert.Equal(t, 5*time.Second, reply.RetryAfter)

		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		assert.NotEqual(t, 429, server(ctx, "one").Status, "the client has left")
	})
}
