package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/fallback"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/limit"
)

// clients connects to a Redis in memory.
func clients(t *testing.T) *rratelimiter.Client {
	redis, err := connect("redis://" + miniredis.RunT(t).Addr())
	require.NoError(t, err)
	t.Cleanup(redis.Close)
	return rratelimiter.New(redis)
}

// TestClients_Code_Runs: each line of Go of docs/clients.md is in client.go or in this file.
func TestClients_Code_Runs(t *testing.T) {
	page, err := os.ReadFile("../../docs/clients.md")
	require.NoError(t, err)
	runs := ""
	for _, file := range []string{"client.go", "clients_test.go"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		runs += string(text)
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	assert.Greater(t, len(blocks), 5)
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		for line := range strings.Lines(code) {
			assert.Contains(t, runs, strings.TrimSpace(line))
		}
	}
}

// geocode waits at most three seconds for a permit.
func geocode(ctx context.Context, geocoder *limit.Limiter, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := geocoder.Acquire(ctx, 1); err != nil {
		return err // context.DeadlineExceeded as soon as it is known that no permit is free in time
	}
	return call(ctx)
}

func TestClients_Wait_HasADeadline(t *testing.T) {
	client := clients(t)
	geocoder := limit.New(client, "geocoder",
		limit.TokenBucket{Capacity: 20, Refill: 10, Interval: time.Minute}, limit.Pause{Most: time.Hour})
	calls := 0
	for range 20 {
		require.NoError(t, geocode(t.Context(), geocoder, func(context.Context) error { calls++; return nil }))
	}
	require.ErrorIs(t, geocode(t.Context(), geocoder, nil), context.DeadlineExceeded)
	assert.Equal(t, 20, calls)
	err := geocoder.Pause(t.Context(), 30*time.Second) // the provider answered: retry after 30 seconds
	require.NoError(t, err)
	d, err := geocoder.Take(t.Context(), 1)
	require.NoError(t, err)
	assert.Greater(t, d.RetryAfter, 20*time.Second)
}

func TestClients_PauseOn_Refusals_AreReported(t *testing.T) {
	retry := httplimit.RetryAfter(429, 503, 529)
	pauseOn := httplimit.PauseOn(func(resp *http.Response) (time.Duration, bool) {
		d, refused := retry(resp)
		if refused {
			slog.Warn("the provider refused a request", "status", resp.StatusCode, "retry", d, "header", resp.Header)
			d = max(d, 5*time.Second)
		}
		return d, refused
	})
	var log strings.Builder
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(529)
	}))
	defer provider.Close()
	paid := limit.New(clients(t), "paid", limit.SlidingLog{Permits: 100, Interval: time.Minute},
		limit.Pause{Most: time.Minute})
	client := http.Client{Transport: httplimit.Transport(nil, httplimit.All(paid), pauseOn, httplimit.Wait(time.Second))}
	resp, err := client.Get(provider.URL)
	require.NoError(t, err)
	resp.Body.Close()
	_, err = client.Get(provider.URL)
	require.ErrorIs(t, err, httplimit.ErrNotSent)
	assert.Contains(t, log.String(), "status=529 retry=0s")
}

func TestClients_Tokens_AreSettled(t *testing.T) {
	client, ctx := clients(t), t.Context()
	requests := limit.New(client, "{model}:requests", limit.SlidingLog{Permits: 60, Interval: 61 * time.Second},
		limit.InFlight{Permits: 8, Lease: 2 * time.Minute}, limit.Pause{Most: time.Hour})
	tokens := limit.New(client, "{model}:tokens", limit.SlidingLog{Permits: 90_000, Interval: 61 * time.Second},
		limit.Pause{Most: time.Hour})

	ask := func(prompt string, most int64) error {
		var call, spent limit.Taken
		defer call.Settle(ctx) // these return everything if the call fails
		defer spent.Settle(ctx)
		estimate := int64(len(prompt))/4 + most
		if err := takeBoth(ctx, part{&call, 1, requests}, part{&spent, estimate, tokens}); err != nil {
			return err
		}
		used, err := callModel(ctx, prompt, most)
		if err != nil {
			return err
		}
		return errors.Join(call.Settle(ctx, 1), spent.Settle(ctx, used))
	}
	require.NoError(t, ask("Hello", 1000))
	require.Error(t, ask("", 1000))
	each, err := limit.Join(requests, tokens).Peek(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, 59, each[0].Remaining)
	assert.EqualValues(t, 8, each[1].Remaining, "the places are back")
	assert.InDelta(t, 90_000-42, each[3].Remaining, 42)
}

type part struct {
	taken   *limit.Taken
	permits int64
	limiter *limit.Limiter
}

func takeBoth(ctx context.Context, first, second part) error {
	for {
		if err := first.taken.Acquire(ctx, first.permits, first.limiter); err != nil {
			return err
		}
		d, err := second.taken.Take(ctx, second.permits, second.limiter)
		if err != nil || d.Allowed {
			return err
		}
		if err := first.taken.Settle(ctx); err != nil {
			return err
		}
		first, second = second, first
	}
}

func callModel(_ context.Context, prompt string, _ int64) (used int64, err error) {
	if prompt == "" {
		return 0, errors.New("the model failed")
	}
	return 42, nil
}

func TestClients_Taken_RetryAfterPausesAll(t *testing.T) {
	client := clients(t)
	requests := limit.New(client, "{model}:requests",
		limit.SlidingLog{Permits: 60, Interval: 61 * time.Second}, limit.Pause{Most: time.Hour})
	tokens := limit.New(client, "{model}:tokens",
		limit.SlidingLog{Permits: 90_000, Interval: 61 * time.Second}, limit.Pause{Most: time.Hour})
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer provider.Close()

	ask := func(ctx context.Context) error {
		var taken limit.Taken
		defer taken.Settle(ctx)
		if err := taken.Acquire(ctx, 1, requests); err != nil {
			return err
		}
		resp, err := http.Get(provider.URL)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if d, refused := httplimit.RetryAfter()(resp); refused {
			d = max(d, time.Second)
			return errors.Join(errRefused, requests.Pause(ctx, d), tokens.Pause(ctx, d)) // all processes
		}
		return nil
	}
	require.ErrorIs(t, ask(t.Context()), errRefused)
	var taken limit.Taken
	for _, limiter := range []*limit.Limiter{requests, tokens} {
		d, err := taken.Take(t.Context(), 1, limiter)
		require.NoError(t, err)
		assert.False(t, d.Allowed)
		assert.InDelta(t, 25, d.RetryAfter.Seconds(), 5)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.ErrorIs(t, ask(ctx), context.DeadlineExceeded, "it is not sent")
}

var errRefused = errors.New("the model refused the request")

func TestClients_RedisAway_ShareServes(t *testing.T) {
	redis, err := connect("redis://" + miniredis.RunT(t).Addr())
	require.NoError(t, err)
	client, ctx := rratelimiter.New(redis), t.Context()
	rate := limit.TokenBucket{Capacity: 20, Refill: 10, Interval: time.Second}
	sms := fallback.New(limit.New(client, "sms", rate), fallback.OnFailure(limit.Local(0.1))) // one of ten processes
	from, err := sms.Acquire(ctx, 1)
	require.NoError(t, err)
	assert.Equal(t, rratelimiter.FromRedis, from)
	redis.Close()
	from, err = sms.Acquire(ctx, 1)
	require.NoError(t, err)
	assert.Equal(t, fallback.FromShare, from)

	var taken limit.Taken
	perMinute := limit.SlidingLog{Permits: 90_000, Interval: 61 * time.Second}
	tokens := fallback.New(limit.New(client, "{model}:tokens", perMinute), fallback.OnFailure(limit.Local(0.1)))
	func() {
		err := taken.Acquire(ctx, 1000, tokens)
		require.NoError(t, err)
	}()
	require.NoError(t, taken.Settle(ctx, 42))
}

func TestClients_Java_SharesTheQuota(t *testing.T) {
	client, ctx := clients(t), t.Context()
	shared := client.Limiter("{paid}:api", // redisson.getRateLimiter("{paid}:api")
		rratelimiter.InitialRate(rratelimiter.Rate{Permits: 100, Interval: time.Minute}))
	pause := limit.New(client, "{paid}:pause", limit.Pause{Most: time.Hour})
	api := limit.Join(shared, pause)
	require.NoError(t, api.Acquire(ctx, 1))
	free, err := shared.AvailablePermits(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, 99, free)
}

func TestClients_ProvidersCount_DrainsTheQuota(t *testing.T) {
	client := clients(t)
	limiter := limit.New(client, "{paid}:quota", limit.FixedWindow{Permits: 100, Interval: time.Minute})
	provider := roundTrip(func(r *http.Request) (*http.Response, error) {
		fields := http.Header{"X-Ratelimit-Remaining": {"40"}}
		return &http.Response{StatusCode: http.StatusOK, Header: fields, Body: http.NoBody, Request: r}, nil
	})
	limited := httplimit.Transport(provider, httplimit.All(limiter), httplimit.FollowQuota())
	resp, err := (&http.Client{Transport: limited}).Get("http://provider")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Eventually(t, func() bool {
		each, err := limiter.Peek(t.Context())
		return err == nil && each[0].Remaining == 40
	}, 5*time.Second, time.Millisecond)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
