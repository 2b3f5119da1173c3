package guardtest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy/policytest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redistest/fake"
	"github.com/rratelimiter/rratelimiter/limit"
)

const secret = "secret of the operator"

func testNoLimiter(t *testing.T, m Middleware) {
	denies := fake.Deciding(func(context.Context) (d rratelimiter.Decision, err error) { return d, nil })
	for name, s := range map[string]Settings{
		"nil":                       {},
		"nil *limit.Limiter":        {Limiter: (*limit.Limiter)(nil)},
		"nil *rratelimiter.Limiter": {Limiter: (*rratelimiter.Limiter)(nil)},
		"skipped":                   {Limiter: denies, Skip: func() bool { return true }},
		"free":                      {Limiter: denies, Cost: func() int64 { return 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			type key struct{}
			ctx, served := context.WithValue(t.Context(), key{}, "mine"), 0
			s.Handler = func(got context.Context) {
				served++
				assert.Equal(t, "mine", got.Value(key{}))
				_, limited := m.FromContext(got)
				assert.False(t, limited)
				assert.NoError(t, m.Settle(got, 5))
				assert.ErrorIs(t, m.Settle(got, -1), rratelimiter.ErrInvalidPermits)
			}
			s.Report = func(limit.Outcome) { t.Error("nothing was decided") }
			assert.Equal(t, Reply{Status: 200}, m.Server(s)(ctx, "one"))
			assert.Equal(t, 1, served)
		})
	}
}

// The error of a failed decision reaches Report, but no client.
func testFailure(t *testing.T, m Middleware) {
	failing := Settings{Err: errors.New(secret)}
	for name, c := range map[string]struct {
		s      Settings
		mode   limit.FailureMode
		status int
		result limit.Result
	}{
		"closed":               {failing, limit.Closed, 503, limit.FailedClosed},
		"open":                 {failing, limit.Open, 200, limit.FailedOpen},
		"a share":              {failing, 1, 503, limit.FailedClosed},
		"a limiter that fails": {Settings{Limiter: fake.Failing(errors.New(secret))}, limit.Closed, 503, limit.FailedClosed},
	} {
		t.Run(name, func(t *testing.T) {
			Run(t, func(t *testing.T, f *redistest.Fixture, _ *rratelimiter.Client) {
				var got limit.Outcome
				served := false
				c.s.Mode, c.s.Report = c.mode, func(o limit.Outcome) { got = o }
				c.s.Handler = func(ctx context.Context) { _, served = m.FromContext(ctx) }
				reply := m.Server(c.s).get(f)
				assert.Equal(t, c.status, reply.Status)
				assert.Equal(t, c.status == 503, reply.RetryAfter == time.Second)
				assert.NotContains(t, reply.Text, secret)
				assert.Equal(t, c.result, got.Result)
				assert.Error(t, got.Err)
				assert.Equal(t, c.status == 200, served)
			})
		})
	}
}

// A client gains nothing by leaving its key out. Its reply has no time to retry.
func testInvalid(t *testing.T, m Middleware) {
	below := func() int64 { return -1 }
	for name, c := range map[string]struct {
		key    string
		s      Settings
		status int
		result limit.Result
	}{
		"no key":         {"", Settings{}, 400, limit.Invalid},
		"open":           {"", Settings{Mode: limit.Open}, 400, limit.Invalid},
		"a share":        {"", Settings{Mode: 1}, 400, limit.Invalid},
		"a cost below 0": {"one", Settings{Cost: below}, 400, limit.Invalid},
		"shadow":         {"", Settings{Shadow: true}, 200, limit.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
				var got limit.Outcome
				served := false
				c.s.Client, c.s.Each = client, hour(10)
				c.s.Report, c.s.Handler = func(o limit.Outcome) { got = o }, func(context.Context) { served = true }
				reply := m.Server(c.s)(t.Context(), c.key)
				assert.Equal(t, c.status, reply.Status)
				assert.Equal(t, c.status == 503, reply.RetryAfter > 0)
				assert.Equal(t, c.status == 200, served)
				assert.Equal(t, c.result, got.Result)
				assert.ErrorIs(t, got.Err, limit.ErrInvalidRequest)
			})
		})
	}
}

func testCost(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		served, cost := 0, int64(0)
		server := m.Server(Settings{
			Client: client, Each: hour(10), Cost: func() int64 { return cost },
			Handler: func(context.Context) { served++ },
		})
		for _, c := range []struct {
			cost   int64
			status int
			retry  time.Duration
		}{
			{7, 200, 0}, {4, 429, time.Hour}, {3, 200, 0}, {11, 429, 0}, {1 << 60, 429, 0},
		} {
			cost = c.cost
			reply := server.get(f)
			assert.Equal(t, c.status, reply.Status, "cost %d", c.cost)
			assert.Equal(t, c.retry, reply.RetryAfter, "cost %d", c.cost)
		}
		assert.Equal(t, 2, served)
	})
}

func testShadow(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		served, results := 0, []limit.Result(nil)
		server := m.Server(Settings{
			Client: client, Each: hour(1), Shadow: true, Wait: 2 * time.Hour,
			Handler: func(context.Context) { served++ },
			Report: func(o limit.Outcome) {
				assert.True(t, o.Shadow)
				assert.Equal(t, "api:one", o.Limiter)
				results = append(results, o.Result)
			},
		})
		begin := time.Now()
		for range 3 {
			assert.Equal(t, Reply{Status: 200}, server.get(f))
			if len(results) == 2 {
				f.Redis.Server().Close()
			}
		}
		assert.Equal(t, []limit.Result{limit.Acquired, limit.Rejected, limit.FailedClosed}, results)
		assert.Equal(t, 3, served)
		assert.Less(t, time.Since(begin), time.Second)
	})
}

// Settings that fail every request panic at once, without a call to Redis.
func testInvalidSettings(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		policytest.Register(t)
		t.Cleanup(synctest.Wait) // a probe in the background reads the policies
		incomplete := []limit.Policy{policytest.Incomplete{FixedWindow: policytest.Window}}
		for name, s := range map[string]Settings{
			"a client that New did not return": {Client: new(rratelimiter.Client), Each: hour(1)},
			"no policies":                      {Client: client, Each: []limit.Policy{}},
			"an invalid policy":                {Client: client, Each: []limit.Policy{limit.FixedWindow{}}},
			"equal policies":                   {Client: client, Each: append(hour(1), hour(2)...)},
			"an initial rate without an end":   {Client: client, Initial: rratelimiter.Rate{Permits: 1, Interval: time.Hour}},
			"an invalid initial rate":          {Client: client, Initial: rratelimiter.Rate{KeepAlive: time.Hour}},
			"a policy without a share":         {Client: client, Each: incomplete},
			"a limiter without a client":       {Limiter: new(limit.Limiter)},
			"a limiter of an invalid policy":   {Limiter: limit.New(client, "a", limit.FixedWindow{})},
			"a limiter without a name":         {Limiter: client.Limiter("")},
			"a share above 1":                  {Mode: 1.1},
			"a deadline below 0":               {Deadline: -1},
			"a wait below 0":                   {Wait: -1},
			"a spread below 0":                 {Spread: -1},
			"a bound below 1":                  {MaxWaiting: -1},
		} {
			before := f.Scripts.Load()
			assert.Panics(t, func() { m.Server(s) }, name)
			assert.Equal(t, before, f.Scripts.Load())
		}
		require.NotPanics(t, func() { m.Server(Settings{}) })
		unknown := m.Server(Settings{Limiter: client.Limiter("a"), Mode: 0.5})
		assert.Panics(t, func() { unknown.get(f) }, "a share of an unknown rate")
	})
}
