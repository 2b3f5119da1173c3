package httplimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// answers is a provider whose answers have header fields.
type answers func(r *http.Request) (status int, fields map[string]string)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	status, fields := a(r)
	h := make(http.Header)
	for name, value := range fields {
		h.Set(name, value)
	}
	return &http.Response{StatusCode: status, Header: h, Body: http.NoBody, Request: r}, nil
}

func send(t testing.TB, transport http.RoundTripper) int {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://provider", http.NoBody)
	require.NoError(t, err)
	resp, err := transport.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	synctest.Wait()
	return resp.StatusCode
}

// TestFollowQuota_Fields_DrainTheLimiter: each form of a count, and those of other kinds do not.
func TestFollowQuota_Fields_DrainTheLimiter(t *testing.T) {
	const none = 99 // of 100, after the request
	for _, test := range []struct {
		field, value string
		kinds        []string
		left         int64
	}{
		{"X-RateLimit-Remaining", "40", nil, 40},
		{"X-Rate-Limit-Remaining", "40", nil, 40},
		{"RateLimit-Remaining", "40", nil, 40},
		{"RateLimit-Remaining", "40.7", nil, 40},
		{"X-RateLimit-Remaining", "40, 7;w=1", nil, 40},
		{"X-RateLimit-Remaining-Requests", "40", nil, 40},
		{"X-RateLimit-Remaining-Tokens", "40", nil, none},
		{"X-RateLimit-Remaining-Tokens", "40", []string{"tokens"}, 40},
		{"Anthropic-RateLimit-Requests-Remaining", "40", nil, 40},
		{"Anthropic-RateLimit-Input-Tokens-Remaining", "40", []string{"tokens", "input-tokens"}, 40},
		{"Anthropic-RateLimit-Requests-Remaining", "40", []string{"tokens"}, none},
		{"X-RateLimit-Remaining-Minute", "40", nil, none},
		{"X-RateLimit-Remaining-Minute", "40", []string{"minute"}, 40},
		{"RateLimit", "limit=100, remaining=40, reset=2", nil, 40},
		{"RateLimit", `"second";r=40;t=1, "minute";r=900;t=60`, nil, 40},
		{"RateLimit", `"second";r=40;t=1, "minute";r=70;t=60`, []string{"minute"}, 70},
		{"RateLimit-Remaining", "0", nil, 0},
		{"RateLimit-Remaining", "500", nil, none},
		{"RateLimit-Remaining", "-1", nil, none},
		{"RateLimit-Remaining", "many", nil, none},
		{"RateLimit-Limit", "40", nil, none},
	} {
		redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
			l := limit.New(rratelimiter.New(f.Conn), "name", limit.FixedWindow{Permits: 100, Interval: time.Hour})
			provider := answers(func(*http.Request) (int, map[string]string) {
				return 200, map[string]string{test.field: test.value}
			})
			send(t, httplimit.Transport(provider, httplimit.All(l), httplimit.FollowQuota(test.kinds...)))
			d, err := l.Peek(t.Context())
			require.NoError(t, err)
			assert.Equal(t, test.left, d[0].Remaining, "%s: %s", test.field, test.value)
		})
	}
}

// TestFollowQuota_NumbersAgree_NoCallMore, also with the layout of Redisson.
func TestFollowQuota_NumbersAgree_NoCallMore(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		client := rratelimiter.New(f.Conn)
		rate := rratelimiter.InitialRate(rratelimiter.Rate{Permits: 100, Interval: time.Hour})
		for name, l := range map[string]httplimit.Limiter{
			"limit": limit.New(client, "a", limit.SlidingLog{Permits: 100, Interval: time.Hour}),
			"java":  client.Limiter("b", rate),
		} {
			left, others := 100, 0
			transport := httplimit.Transport(answers(func(*http.Request) (int, map[string]string) {
				left -= 1 + others
				return 200, map[string]string{"X-RateLimit-Remaining": strconv.Itoa(left)}
			}), httplimit.All(l), httplimit.FollowQuota())
			send(t, transport)
			before := f.Scripts.Load()
			for range 10 {
				send(t, transport)
			}
			assert.EqualValues(t, 10, f.Scripts.Load()-before, name)
			others = 3
			send(t, transport)
			assert.EqualValues(t, 12, f.Scripts.Load()-before, name)
			others = 0
			send(t, transport)
			assert.EqualValues(t, 13, f.Scripts.Load()-before, name)
		}
	})
}

// TestFollowQuota_LateAnswers_AreIgnored: one of a request before another one, and one of a window that is
// over. What came free since is added.
func TestFollowQuota_LateAnswers_AreIgnored(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		client := rratelimiter.New(f.Conn)
		window := limit.New(client, "window", limit.FixedWindow{Permits: 100, Interval: time.Minute})
		bucket := limit.New(client, "bucket", limit.TokenBucket{Capacity: 100, Refill: 1, Interval: time.Second})
		free := func(l *limit.Limiter) int64 {
			d, err := l.Peek(t.Context())
			require.NoError(t, err)
			return d[0].Remaining
		}
		type answer struct {
			after time.Duration
			left  string
		}
		next := make(chan answer, 2)
		provider := answers(func(*http.Request) (int, map[string]string) {
			a := <-next
			time.Sleep(a.after)
			return 200, map[string]string{"X-RateLimit-Remaining": a.left}
		})
		ask := func(transport http.RoundTripper, a answer) {
			next <- a
			send(t, transport)
		}
		late := httplimit.Transport(provider, httplimit.All(window), httplimit.FollowQuota())
		go ask(late, answer{20 * time.Second, "50"})
		time.Sleep(time.Second)
		ask(late, answer{time.Second, "60"})
		assert.EqualValues(t, 60, free(window))
		time.Sleep(30 * time.Second)
		assert.EqualValues(t, 60, free(window), "of a request before")
		ask(late, answer{35 * time.Second, "0"})
		assert.EqualValues(t, 100, free(window), "of the window before")

		slow := httplimit.Transport(provider, httplimit.All(bucket), httplimit.FollowQuota())
		ask(slow, answer{20 * time.Second, "50"})
		assert.EqualValues(t, 70, free(bucket))
	})
}

// TestFollowQuota_TwoFleets_FewRefusals: two fleets of three processes, which do not know each other, share
// 100 requests a minute of a provider.
func TestFollowQuota_TwoFleets_FewRefusals(t *testing.T) {
	for name, kind := range map[string]struct {
		policy limit.Policy
		count  func(permits int64, interval time.Duration) counter
	}{
		"window": {limit.FixedWindow{Permits: 100, Interval: time.Minute, Aligned: true}, fixed},
		"log":    {limit.SlidingLog{Permits: 100, Interval: 61 * time.Second}, sliding},
	} {
		refused := make(map[bool]int)
		for _, follows := range []bool{false, true} {
			redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
				f.Latency.Store(int64(time.Millisecond))
				served, denied := twoFleets(t, f, follows, kind.policy, kind.count(100, time.Minute))
				t.Logf("%s, follows %v: %d served, %d refused", name, follows, served, denied)
				assert.GreaterOrEqual(t, served, 90*fleetMinutes, name)
				refused[follows] = denied
			})
		}
		assert.Less(t, refused[true], refused[false]/4, name)
	}
}

// fleetMinutes is how long twoFleets sends requests.
var fleetMinutes = redistest.Deep(3, 10)

// twoFleets sends 12 requests a second in all, if the limiters let them.
func twoFleets(t *testing.T, f *redistest.Fixture, follows bool, policy limit.Policy,
	count counter) (served, denied int) {
	var mu sync.Mutex
	began := time.Now().Truncate(24 * time.Hour)
	provider := answers(func(*http.Request) (int, map[string]string) {
		time.Sleep(5*time.Millisecond + rand.N(10*time.Millisecond))
		defer time.Sleep(5 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		left := count(time.Since(began), 1)
		if left < 0 {
			denied++
			return 429, map[string]string{"X-RateLimit-Remaining": "0"}
		}
		served++
		return 200, map[string]string{"X-RateLimit-Remaining": fmt.Sprint(left)}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(fleetMinutes)*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for process := range 6 {
		l := limit.New(rratelimiter.New(f.Conn), fmt.Sprintf("fleet-%d", process%2), policy)
		var opts []httplimit.Option
		if follows {
			opts = append(opts, httplimit.FollowQuota())
		}
		transport := httplimit.Transport(provider, httplimit.All(l), opts...)
		for range 2 {
			all.Go(func() {
				for {
					r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://provider", http.NoBody)
					assert.NoError(t, err)
					if _, err = transport.RoundTrip(r); err != nil {
						return
					}
					time.Sleep(rand.N(2 * time.Second))
				}
			})
		}
	}
	all.Wait()
	return served, denied
}
