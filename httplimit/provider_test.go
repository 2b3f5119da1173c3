package httplimit_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
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

// counter decides at a provider whether a request is served, at a time since a midnight.
type counter func(now time.Duration) bool

// sliding serves so many in any interval.
func sliding(permits int, interval time.Duration) counter {
	var served []time.Duration
	return func(now time.Duration) bool {
		served = slices.DeleteFunc(served, func(at time.Duration) bool { return at <= now-interval })
		if len(served) >= permits {
			return false
		}
		served = append(served, now)
		return true
	}
}

// fixed serves so many in each interval since midnight.
func fixed(permits int, interval time.Duration) counter {
	window, count := time.Duration(-1), 0
	return func(now time.Duration) bool {
		if now/interval != window {
			window, count = now/interval, 0
		}
		count++
		return count <= permits
	}
}

// bucket serves a burst, and then one in each step.
func bucket(capacity float64, step time.Duration) counter {
	tokens, last := capacity, time.Duration(0)
	return func(now time.Duration) bool {
		tokens, last = min(capacity, tokens+float64(now-last)/float64(step)), now
		if tokens < 1 {
			return false
		}
		tokens--
		return true
	}
}

// spacing serves one after each pause.
func spacing(step time.Duration) counter { return sliding(1, step) }

// both serves what two serve.
func both(one, other counter) counter {
	return func(now time.Duration) bool { return one(now) && other(now) }
}

// distance is how long a request takes to the provider: 5 to 15 ms.
func distance() time.Duration { return 5*time.Millisecond + rand.N(10*time.Millisecond) }

// saturate has five processes send as many requests as they may, and returns those served and refused.
func saturate(t *testing.T, f *redistest.Fixture, provider counter, lasts time.Duration, policies ...limit.Policy,
) (served, refused int) {
	midnight := time.Now().Truncate(24 * time.Hour)
	var mu sync.Mutex
	base := roundTrip(func(*http.Request) (*http.Response, error) {
		time.Sleep(distance())
		mu.Lock()
		defer mu.Unlock()
		if provider(time.Since(midnight)) {
			served++
		} else {
			refused++
		}
		return response(200), nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var all sync.WaitGroup
	for range 5 {
		paid := limit.New(rratelimiter.New(f.Conn), "paid", policies...)
		transport := httplimit.Transport(base, httplimit.All(paid))
		for range 3 {
			all.Go(func() {
				for err := error(nil); err == nil; { // until no permit is free in time
					_, err = transport.RoundTrip(request().WithContext(ctx))
				}
			})
		}
	}
	all.Wait()
	return served, refused
}

// weighted serves permits in any interval.
func weighted(permits int64, interval time.Duration) func(now time.Duration, n int64) bool {
	type one struct {
		at time.Duration
		n  int64
	}
	var served []one
	return func(now time.Duration, n int64) bool {
		sum := n
		served = slices.DeleteFunc(served, func(o one) bool { return o.at <= now-interval })
		for _, o := range served {
			sum += o.n
		}
		if sum <= permits {
			served = append(served, one{now, n})
		}
		return sum <= permits
	}
}

// tokensRow is the row of the page with a policy of tokens.
const tokensRow = "90,000 tokens and 60 requests per minute"

// A provider counts the requests and the tokens of each minute. Tokens, which are scarce, are taken last.
func TestTaken_TokensLast_AreAcceptedByAProvider(t *testing.T) {
	perMinute := []limit.Policy{
		limit.SlidingLog{Permits: 90_000, Interval: 61 * time.Second},
		limit.SlidingLog{Permits: 60, Interval: 61 * time.Second},
	}
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		f.Latency.Store(int64(time.Millisecond))
		begin := time.Now()
		countTokens, countRequests := weighted(90_000, time.Minute), weighted(60, time.Minute)
		var mu sync.Mutex
		served, refused := int64(0), 0
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		var all sync.WaitGroup
		for range 5 {
			client := rratelimiter.New(f.Conn)
			tokens, requests := limit.New(client, "{m}t", perMinute[0]), limit.New(client, "{m}r", perMinute[1])
			for range 3 {
				all.Go(func() {
					for {
						n := 500 + rand.N[int64](6000)
						var taken limit.Taken
						if taken.Acquire(ctx, 1, requests) != nil || taken.Acquire(ctx, n, tokens) != nil {
							return
						}
						time.Sleep(distance())
						mu.Lock()
						if now := time.Since(begin); countRequests(now, 1) && countTokens(now, n) {
							served += n
						} else {
							refused++
						}
						mu.Unlock()
						time.Sleep(time.Second)
					}
				})
			}
		}
		all.Wait()
		t.Logf("%d served, %.1f %% of the quota, %d refused", served, float64(served)/3600, refused)
		assert.Zero(t, refused)
		assert.GreaterOrEqual(t, served, int64(324_000))
	})
}

// Each row of the table in docs/clients.md, against providers of its kind: none is refused, and at least
// 90 % of the quota is used.
func TestTransport_PoliciesOfThePage_AreAcceptedByProviders(t *testing.T) {
	const second, minute, day = time.Second, time.Minute, 24 * time.Hour
	rows := map[string]struct {
		policies []limit.Policy
		lasts    time.Duration
		quota    int
		kinds    map[string]func() counter
	}{
		"100 requests per minute": {
			[]limit.Policy{limit.SlidingLog{Permits: 100, Interval: 61 * time.Second}}, 2 * minute, 200,
			map[string]func() counter{
				"sliding": func() counter { return sliding(100, minute) },
				"fixed":   func() counter { return fixed(100, minute) },
				"bucket":  func() counter { return bucket(100, minute/100) },
			},
		},
		"5 per second": {
			[]limit.Policy{limit.SlidingLog{Permits: 5, Interval: 1050 * time.Millisecond}}, 20 * second, 100,
			map[string]func() counter{
				"sliding": func() counter { return sliding(5, second) },
				"fixed":   func() counter { return fixed(5, second) },
				"bucket":  func() counter { return bucket(5, second/5) },
			},
		},
		"10 per second, bursts of 20": {
			[]limit.Policy{limit.TokenBucket{Capacity: 19, Refill: 10, Interval: time.Second}}, 20 * second, 220,
			map[string]func() counter{"bucket": func() counter { return bucket(20, second/10) }},
		},
		"one request every 200 ms": {
			[]limit.Policy{limit.TokenBucket{Capacity: 1, Refill: 1, Interval: 215 * time.Millisecond}}, 20 * second, 100,
			map[string]func() counter{"spacing": func() counter { return spacing(second / 5) }},
		},
		"1,000 per day, reset at 00:00 UTC": {
			[]limit.Policy{limit.Calendar{Permits: 1000, Unit: limit.Day}}, 20 * second, 2000,
			map[string]func() counter{"fixed": func() counter { return fixed(1000, day) }},
		},
		"10 per second and 1,000,000 a month": {
			[]limit.Policy{limit.SlidingLog{Permits: 10, Interval: 1050 * time.Millisecond},
				limit.Calendar{Permits: 1_000_000, Unit: limit.Month}}, 20 * second, 200,
			map[string]func() counter{
				"sliding": func() counter { return both(sliding(10, second), fixed(1_000_000, 31*day)) },
			},
		},
	}
	for text, row := range rows {
		for kind, provider := range row.kinds {
			t.Run(text+", "+kind, func(t *testing.T) {
				redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
					f.Latency.Store(int64(time.Millisecond))
					time.Sleep(day - 10*second) // the clock begins at midnight
					served, refused := saturate(t, f, provider(), row.lasts, row.policies...)
					t.Logf("%d served, %.1f %% of the quota, %d refused", served, 100*float64(served)/float64(row.quota), refused)
					assert.Zero(t, refused)
					assert.GreaterOrEqual(t, served, row.quota*9/10)
					time.Sleep(time.Second)
				})
			})
		}
	}

	page, err := os.ReadFile("../docs/clients.md")
	require.NoError(t, err)
	source, err := os.ReadFile("provider_test.go")
	require.NoError(t, err)
	found := 0
	for line := range strings.Lines(string(page)) {
		text, code, ok := strings.Cut(strings.TrimPrefix(line, `| "`), `" | `)
		if !ok || !strings.HasPrefix(line, `| "`) {
			continue
		}
		found++
		if text != tokensRow {
			assert.Contains(t, rows, text)
		}
		for _, one := range strings.Split(strings.Split(code, "`")[1], ", limit.") {
			assert.True(t, strings.Contains(string(source), "limit."+strings.TrimPrefix(one, "limit.")), one)
		}
	}
	assert.Equal(t, len(rows)+1, found)
}
