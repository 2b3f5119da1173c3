// Package recipes runs the code of docs/choosing.md.
package recipes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// TestRecipes_Code_Runs: each line of Go of the section is in this file.
func TestRecipes_Code_Runs(t *testing.T) {
	page, err := os.ReadFile("../../docs/choosing.md")
	require.NoError(t, err)
	runs, err := os.ReadFile("recipes_test.go")
	require.NoError(t, err)
	_, recipes, _ := strings.Cut(string(page), "\n## Recipes\n")
	blocks := strings.Split(recipes, "```go\n")[1:]
	assert.Len(t, blocks, 9)
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		for line := range strings.Lines(code) {
			assert.True(t, strings.Contains(string(runs), strings.TrimSpace(line)), line)
		}
	}
}

// test runs a test on a Redis in memory, on the clock of synctest.
func test(t *testing.T, run func(t *testing.T, client *rratelimiter.Client)) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) { run(t, rratelimiter.New(f.Conn)) })
}

func post(handler http.Handler, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = w.Write(body)
})

// account is a key from the body of a log-in, which the handler reads again.
func account(r *http.Request) (string, error) {
	var login struct{ User string }
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, 4096))
	if err != nil || json.Unmarshal(body, &login) != nil || login.User == "" {
		return "", fmt.Errorf("the body has no user: %w", limit.ErrInvalidRequest) // 400
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return strings.ToLower(login.User), nil
}

func TestRecipes_KeyFromTheBody(t *testing.T) {
	test(t, func(t *testing.T, client *rratelimiter.Client) {
		perAccount := httplimit.Each(client, "login", account, limit.FixedWindow{Permits: 5, Interval: time.Minute})
		handler := httplimit.Middleware(perAccount)(hello)
		for range 5 {
			w := post(handler, `{"user":"Ada"}`)
			assert.Equal(t, 200, w.Code)
			assert.JSONEq(t, `{"user":"Ada"}`, w.Body.String())
		}
		assert.Equal(t, 429, post(handler, `{"user":"ada"}`).Code)
		assert.Equal(t, 200, post(handler, `{"user":"bob"}`).Code)
		assert.Equal(t, 400, post(handler, `{}`).Code)
		assert.Equal(t, 400, post(handler, `{"user":"`+strings.Repeat("x", 5000)+`"}`).Code)
	})
}

func TestRecipes_FailedLogInsOnly(t *testing.T) {
	test(t, func(t *testing.T, client *rratelimiter.Client) {
		passwordIsRight := func(r *http.Request) bool {
			time.Sleep(100 * time.Millisecond) // as long as a hash takes
			return r.Header.Get("Authorization") == "right"
		}
		perAccount := httplimit.Each(client, "login", account, limit.FixedWindow{Permits: 5, Interval: time.Minute})
		login := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !passwordIsRight(r) {
				w.WriteHeader(http.StatusUnauthorized) // costs the permit that the middleware took
				return
			}
			if err := httplimit.Settle(r.Context(), 0); err != nil { // returns it after the response
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		handler := httplimit.Middleware(perAccount)(login)
		for range 20 {
			require.Equal(t, 200, post(handler, `{"user":"ada"}`, "Authorization", "right").Code)
		}
		for range 5 {
			require.Equal(t, 401, post(handler, `{"user":"ada"}`).Code)
		}
		assert.Equal(t, 429, post(handler, `{"user":"ada"}`, "Authorization", "right").Code)

		codes, all := make(chan int, 20), sync.WaitGroup{}
		for range 20 {
			all.Go(func() { codes <- post(handler, `{"user":"bob"}`, "Authorization", "right").Code })
		}
		all.Wait()
		close(codes)
		refused := 0
		for code := range codes {
			if code == 429 {
				refused++
			}
		}
		assert.Equal(t, 15, refused, "requests under way count until they settle")
	})
}

func TestRecipes_FailedLogInsOfUsersAndAddresses(t *testing.T) {
	test(t, func(t *testing.T, client *rratelimiter.Client) {
		five := limit.FixedWindow{Permits: 5, Interval: time.Minute}
		users := limit.NewKeyed(client, "{login}:user", limit.Named("user", five))
		addresses := limit.NewKeyed(client, "{login}:address", limit.Named("address", five))
		byIP := httplimit.ByIP()
		both := httplimit.Middleware(func(r *http.Request) (httplimit.Limiter, error) {
			user, err := account(r)
			if err != nil {
				return nil, err
			}
			address, err := byIP(r)
			if err != nil {
				return nil, err
			}
			return limit.Join(users.Limiter(user), addresses.Limiter(address)), nil
		})
		handler := both(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "right" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			assert.NoError(t, httplimit.Settle(r.Context(), 0))
		}))
		for range 20 {
			require.Equal(t, 200, post(handler, `{"user":"ada"}`, "Authorization", "right").Code)
		}
		for range 5 {
			require.Equal(t, 401, post(handler, `{"user":"ada"}`).Code)
		}
		assert.Contains(t, post(handler, `{"user":"ada"}`).Body.String(), `"violated-policies":["user","address"]`)
		assert.Contains(t, post(handler, `{"user":"bob"}`).Body.String(), `"violated-policies":["address"]`)
	})
}

func TestRecipes_LimitByPlan(t *testing.T) {
	test(t, func(t *testing.T, client *rratelimiter.Client) {
		var database sync.Map
		database.Store("ada", int64(2))
		permitsOf := func(_ context.Context, user string) (int64, error) {
			n, ok := database.Load(user)
			if !ok {
				return 0, fmt.Errorf("no user %q: %w", user, limit.ErrInvalidRequest)
			}
			return n.(int64), nil
		}
		byPlan := func(r *http.Request) (httplimit.Limiter, error) {
			user := r.Header.Get("X-User")                 // set by what authenticates
			perMinute, err := permitsOf(r.Context(), user) // your database, with a cache in front of it
			if err != nil {
				return nil, err
			}
			return limit.New(client, "plan:"+user, limit.SlidingWindow{Permits: perMinute, Interval: time.Minute}), nil
		}
		handler := httplimit.Middleware(byPlan)(hello)
		status := func() int { return post(handler, "", "X-User", "ada").Code }
		assert.Equal(t, []int{200, 200, 429}, []int{status(), status(), status()})
		database.Store("ada", int64(3))
		assert.Equal(t, []int{200, 429}, []int{status(), status()}, "what was taken is kept")
		database.Store("ada", int64(1))
		assert.Equal(t, 429, status())
		assert.Equal(t, 400, post(handler, "", "X-User", "eve").Code)
	})
}

func TestRecipes_ResetAtNoon(t *testing.T) {
	test(t, func(t *testing.T, client *rratelimiter.Client) {
		ctx := t.Context()
		noon := time.FixedZone("Etc/GMT-12", 12*60*60) // its midnight is noon in UTC
		quota := limit.New(client, "geocoder", limit.Calendar{Permits: 1000, Unit: limit.Day, In: noon})
		now := time.Now().UTC()
		require.Zero(t, now.Hour(), "the clock begins at midnight in UTC")
		d, err := quota.Take(ctx, 1000)
		require.NoError(t, err)
		assert.True(t, d.Allowed)
		time.Sleep(12*time.Hour - time.Second)
		d, err = quota.Take(ctx, 1)
		require.NoError(t, err)
		assert.False(t, d.Allowed)
		assert.LessOrEqual(t, d.RetryAfter, time.Second)
		time.Sleep(d.RetryAfter)
		d, err = quota.Take(ctx, 1)
		require.NoError(t, err)
		assert.True(t, d.Allowed)
	})
}

func TestRecipes_BackgroundWork(t *testing.T) {
	test(t, func(t *testing.T, client *rratelimiter.Client) {
		requests := limit.New(client, "paid-api", limit.SlidingWindow{Permits: 100, Interval: time.Minute})
		background := limit.New(client, "paid-api", limit.SlidingWindow{Permits: 80, Interval: time.Minute})
		share(t, requests, background)
	})
	for name, policy := range map[string]func(permits int64) limit.Policy{
		"window":   func(n int64) limit.Policy { return limit.FixedWindow{Permits: n, Interval: time.Minute} },
		"calendar": func(n int64) limit.Policy { return limit.Calendar{Permits: n, Unit: limit.Day} },
		"log":      func(n int64) limit.Policy { return limit.SlidingLog{Permits: n, Interval: time.Minute} },
		"bucket": func(n int64) limit.Policy {
			return limit.TokenBucket{Capacity: n, Refill: 1, Interval: time.Hour}
		},
	} {
		test(t, func(t *testing.T, client *rratelimiter.Client) {
			t.Log(name)
			share(t, limit.New(client, name, policy(100)), limit.New(client, name, policy(80)))
		})
	}
}

// share takes permits of two limiters of which the second gets some only below 80 of 100.
func share(t *testing.T, requests, background *limit.Limiter) {
	take := func(l *limit.Limiter, n int) (granted int) {
		for range n {
			allowed, err := l.TryAcquire(t.Context(), 1)
			require.NoError(t, err)
			if allowed {
				granted++
			}
		}
		return granted
	}
	assert.Equal(t, 50, take(requests, 50))
	assert.Equal(t, 30, take(background, 40), "80 of 100 are taken")
	assert.Equal(t, 20, take(requests, 40))
	assert.Zero(t, take(background, 1))
}

func TestRecipes_TwoRegions(t *testing.T) {
	test(t, func(t *testing.T, client *rratelimiter.Client) {
		ctx, granted := t.Context(), int64(0)
		shares := map[string]int64{"eu": 60, "us": 40} // of 100 per minute
		for region := range shares {
			quota := limit.New(client, "paid-api:"+region,
				limit.SlidingLog{Permits: shares[region], Interval: 61 * time.Second})
			n, _, err := quota.TakeUpTo(ctx, 1000)
			require.NoError(t, err)
			granted += n
		}
		assert.EqualValues(t, 100, granted)
	})
}

func TestRecipes_Keys_AreTriedInOrder(t *testing.T) {
	test(t, func(t *testing.T, client *rratelimiter.Client) {
		ctx := t.Context()
		keys := limit.NewKeyed(client, "geocoder:key", limit.SlidingLog{Permits: 2, Interval: time.Minute})
		use := func(names ...string) (string, error) {
			for _, name := range names {
				allowed, err := keys.TryAcquire(ctx, name, 1)
				if err != nil || allowed {
					return name, err
				}
			}
			return names[0], keys.Acquire(ctx, names[0], 1)
		}
		var used []string
		for range 4 {
			name, err := use("first", "second")
			require.NoError(t, err)
			used = append(used, name)
		}
		assert.Equal(t, "[first first second second]", fmt.Sprint(used))
	})
}

func TestRecipes_CostKnownAfterwards(t *testing.T) {
	test(t, func(t *testing.T, client *rratelimiter.Client) {
		writeRows := func(http.ResponseWriter) int64 { return 1200 }
		perUser := httplimit.Each(client, "rows", httplimit.ByHeader("X-User"),
			limit.TokenBucket{Capacity: 1000, Refill: 100, Interval: time.Second})
		rows := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := httplimit.Settle(r.Context(), writeRows(w)); err != nil {
				log.Print(err)
			}
		})
		export := httplimit.Middleware(perUser, httplimit.Cost(func(*http.Request) int64 { return 10 }))(rows)
		assert.Equal(t, 200, post(export, "", "X-User", "ada").Code)
		time.Sleep(time.Second)
		assert.Equal(t, 429, post(export, "", "X-User", "ada").Code, "200 are owed")
		time.Sleep(1100 * time.Millisecond)
		assert.Equal(t, 200, post(export, "", "X-User", "ada").Code)
	})
}

func TestMoving_Reserve_IsThatOfABucket(t *testing.T) {
	page, err := os.ReadFile("../../docs/moving.md")
	require.NoError(t, err)
	runs, err := os.ReadFile("recipes_test.go")
	require.NoError(t, err)
	blocks := strings.Split(string(page), "```go\n")[1:]
	assert.Len(t, blocks, 2)
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		for line := range strings.Lines(code) {
			assert.True(t, strings.Contains(string(runs), strings.TrimSpace(line)), line)
		}
	}
	test(t, func(t *testing.T, client *rratelimiter.Client) {
		ctx := t.Context()
		limiter := limit.New(client, "reports", limit.TokenBucket{Capacity: 20, Refill: 10, Interval: time.Second})
		err := limiter.Acquire(ctx, 1) // rate.NewLimiter(10, 20) and Wait(ctx) of x/time/rate, for all processes together
		require.NoError(t, err)
		const each = 100 * time.Millisecond
		reserve := func(n int64) time.Duration {
			delay, err := reserve(ctx, limiter, n, each)
			require.NoError(t, err)
			return delay
		}
		assert.Zero(t, reserve(18))
		assert.Zero(t, reserve(1))
		assert.Equal(t, each, reserve(1))
		assert.Equal(t, 4*each, reserve(3))
		require.NoError(t, limiter.Release(ctx, 3))
		assert.Equal(t, 2*each, reserve(1))
	})
}

// reserve is ReserveN of a bucket that gets a permit in each time.
func reserve(ctx context.Context, l *limit.Limiter, n int64, each time.Duration) (delay time.Duration, err error) {
	d, err := l.Charge(ctx, n) // takes n in any case
	return max(0, d.RetryAfter-each), err
}
