package rules

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// rated returns a file that states the rate of a Redisson limiter.
func rated(rate string) string {
	return "rules: [{name: a, limits: {redisson: q, rate: " + rate + "}}]\n"
}

// permits returns the permits of the limiter's rate.
func permits(f *redistest.Fixture, client *rratelimiter.Client) int64 {
	rate, err := client.Limiter("q").Config(f.Context())
	require.NoError(f, err)
	return rate.Permits
}

// Watch still returns the rules, and reports the error.
func TestRates_FirstRatesFail_AreReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, rated("5/s"))
	reported := make(chan error)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	set, err := Watch(ctx, path, Rates(rratelimiter.New(nil)), OnReload(func(err error) { reported <- err }))
	require.NoError(t, err)
	assert.ErrorIs(t, <-reported, rratelimiter.ErrNoClient)
	assert.Equal(t, 1, set.Len())
}

// Rates are set at the start and on each change, and again on each poll if that fails.
func TestRates_FileChanges_AreSet(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		p := newPolled(f, rated("5/s"), Rates(client))
		require.NoError(t, p.setRates(t.Context()))
		p.run()
		assert.EqualValues(t, 5, permits(f, client))
		// The rate that another program sets stays until the file changes.
		require.NoError(t, client.Limiter("q").SetRate(t.Context(), rratelimiter.Rate{Permits: 9, Interval: time.Second}))
		sleepAndWait(time.Minute)
		assert.EqualValues(t, 9, permits(f, client))
		p.put(rated("7/s"))
		sleepAndWait(time.Minute)
		assert.EqualValues(t, 7, permits(f, client))
		assert.Equal(t, []error{nil}, p.reported())
		f.Redis.SetError("LOADING")
		p.put(rated("8/s"))
		sleepAndWait(time.Minute)
		require.Len(t, p.reported(), 3, "the rules are in force, the rate is not set")
		assert.NoError(t, p.reported()[1])
		assert.ErrorContains(t, p.reported()[2], `the rate of "q", of the rule "a": `)
		f.Redis.SetError("")
		sleepAndWait(time.Minute)
		assert.EqualValues(t, 8, permits(f, client))
		require.Len(t, p.reported(), 4)
		assert.NoError(t, p.reported()[3])
	})
}

// TestRates_RedisHangs_FileIsInForceAtOnce: rates are set beside the goroutine that follows the file, one
// file at a time, and the last one wins.
func TestRates_RedisHangs_FileIsInForceAtOnce(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		p := newPolled(f, rated("5/s"), Rates(client))
		p.files.Every = time.Second
		require.NoError(t, p.setRates(t.Context()))
		p.run()
		f.Latency.Store(int64(time.Hour))
		for _, rate := range []string{"6/s", "7/s", "8/s"} {
			p.put(rated(rate))
			sleepAndWait(2 * time.Second)
			assert.Equal(t, rate, fmt.Sprintf("%d/s", p.set.File().Rates[0].Rate.Permits))
		}
		f.Latency.Store(0)
		sleepAndWait(2 * time.Hour) // replies under way arrive
		assert.EqualValues(t, 8, permits(f, client))
	})
}

// The limiter is alone, or has other limits beside it; one rule states the rate. SetRates keeps the
// state. A limiter that was lost with the data of Redis begins again.
func TestMiddleware_RedissonLimiter_SharesItsRate(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		set := parsed(t, `
rules:
  - {name: alone, match: /alone, limits: {redisson: paid, rate: 3/h}}
  - {name: both, match: /both, key: ip, limits: [2/h, {redisson: paid}]}`)
		handler := set.Middleware(client)(&ok{})
		assert.Equal(t, good, status(handler, "GET /both")) // that sets the rate
		f.Redis.FlushAll()
		require.NoError(t, set.SetRates(t.Context(), client))
		paid := client.Limiter("paid")
		is, err := paid.Config(t.Context())
		require.NoError(t, err)
		assert.Equal(t, rratelimiter.Rate{Permits: 3, Interval: time.Hour}, is)
		assert.Equal(t, good, status(handler, "GET /alone"))
		w := serve(handler, request("GET /both"))
		assert.Equal(t, good, w.Code)
		assert.Equal(t, `"1h";r=1;t=3960, "paid";r=1`, strings.ReplaceAll(w.Header().Get("Ratelimit"), "hour", "1h"))
		assert.Equal(t, good, status(handler, "GET /both"))
		assert.Equal(t, many, status(handler, "GET /both"))
		free := redistest.Available(t, paid)
		assert.Zero(t, free)
		// Another rate keeps the permits taken.
		next := parsed(t, `rules: [{name: alone, limits: {redisson: paid, rate: 5/h}}]`)
		require.NoError(t, next.SetRates(t.Context(), client))
		assert.EqualValues(t, 2, redistest.Available(t, paid))
		// The same rate writes nothing.
		before, sent := f.Redis.Dump(), f.Sent.Load()
		require.NoError(t, next.SetRates(t.Context(), client))
		assert.Equal(t, before, f.Redis.Dump())
		assert.EqualValues(t, 1, f.Sent.Load()-sent) // to read the rate
		f.Redis.FlushAll()
		for _, want := range []int{good, good, good, many} {
			assert.Equal(t, want, status(handler, "GET /alone"))
		}
	})
}
