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

// counter decides at a provider on a request of n permits, at a time since a midnight. It returns how many are left, or
// less than 0 if the request is refused.
type counter func(now time.Duration, n int64) (left int64)

// sliding serves so many in any interval.
func sliding(permits int64, interval time.Duration) counter {
	type one struct {
		at time.Duration
		n  int64
	}
	var served []one
	return func(now time.Duration, n int64) int64 {
		sum := n
		served = slices.DeleteFunc(served, func(o one) bool { return o.at <= now-interval })
		for _, o := range served {
			sum += o.n
		}
		if sum <= permits {
			served = append(served, one{now, n})
		}
		return permits - sum
	}
}

// fixed serves so many in each interval since midnight.
func fixed(permits int64, interval time.Duration) counter {
	window, sum := time.Duration(-1), int64(0)
	return func(now time.Duration, n int64) int64 {
		if now/interval != window {
			window, sum = now/interval, 0
		}
		if left := permits - sum - n; left < 0 {
			return left
		}
		sum += n
		return permits - sum
	}
}

// bucket serves a burst, and then one in each step.
func bucket(capacity float64, step time.Duration) counter {
	tokens, last := capacity, time.Duration(0)
	return func(now time.Duration, n int64) int64 {
		tokens, last = min(capacity, tokens+float64(now-last)/float64(step)), now
		if tokens < float64(n) {
			return -1
		}
		tokens -= float64(n)
		return int64(tokens)
	}
}

// both counts requests, and permits.
func both(requests, permits counter) counter {
	return func(now time.Duration, n int64) int64 {
		if left := requests(now, 1); left < 0 {
			return left
		}
		return permits(now, n)
	}
}

// provider is 5 to 15 ms away, and counts requests.
type provider struct {
	count  counter
	began  time.Time // a midnight
	mu     sync.Mutex
	served int64 // permits
	denied int64 // requests
}

func (p *provider) request(n int64) {
	time.Sleep(5*time.Millisecond + rand.N(10*time.Millisecond))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count(time.Since(p.began), n) >= 0 {
		p.served += n
	} else {
		p.denied++
	}
}

// saturate has five processes send as many requests as they may. None is refused, and at least 85 % of the
// quota is used: 95 % on average, since an interval is longer than the provider's, and a run of seconds varies. Each
// process opens a function that sends requests until its context ends.
func (p *provider) saturate(t *testing.T, f *redistest.Fixture, lasts time.Duration, quota int64,
	open func(client *rratelimiter.Client) func(ctx context.Context) error) {
	p.began = time.Now().Truncate(24 * time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var all sync.WaitGroup
	for range 5 {
		send := open(rratelimiter.New(f.Conn))
		for range 3 {
			all.Go(func() {
				for send(ctx) == nil {
				}
			})
		}
	}
	all.Wait()
	t.Logf("%d served, %.1f %% of the quota, %d refused", p.served, 100*float64(p.served)/float64(quota), p.denied)
	assert.Zero(t, p.denied)
	assert.GreaterOrEqual(t, p.served, quota*85/100)
}

// The rows of the page with policies of a Taken.
var takenRows = []string{"90,000 tokens and 60 requests per minute", "8 requests at once"}

// A provider counts the requests and the tokens of each minute. Tokens, which are scarce, are taken last.
func TestTaken_TokensLast_AreAcceptedByAProvider(t *testing.T) {
	perMinute := []limit.Policy{
		limit.SlidingLog{Permits: 90_000, Interval: 61 * time.Second},
		limit.SlidingLog{Permits: 60, Interval: 61 * time.Second},
	}
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		f.Latency.Store(int64(time.Millisecond))
		tokens, requests := sliding(90_000, time.Minute), sliding(60, time.Minute)
		p := &provider{count: both(requests, tokens)}
		p.saturate(t, f, 4*time.Minute, 4*90_000, func(client *rratelimiter.Client) func(context.Context) error {
			tokens, requests := limit.New(client, "{m}t", perMinute[0]), limit.New(client, "{m}r", perMinute[1])
			return func(ctx context.Context) error {
				n := 500 + rand.N[int64](6000)
				var taken limit.Taken
				if err := taken.Acquire(ctx, 1, requests); err != nil {
					return err
				}
				if err := taken.Acquire(ctx, n, tokens); err != nil {
					return err
				}
				p.request(n)
				time.Sleep(time.Second)
				return nil
			}
		})
	})
}

// model is a provider that counts the requests and the tokens of each minute and the calls in flight. It
// refuses the 50th call with a Retry-After, and each that begins before that is over.
type model struct {
	provider
	calls, inFlight, most int64
	until                 time.Time
	perToken              time.Duration // how long a call lasts
}

// call returns the time of a Retry-After, or 0.
func (m *model) call(used int64) time.Duration {
	time.Sleep(5*time.Millisecond + rand.N(10*time.Millisecond))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	switch {
	case m.calls == 50:
		m.until = time.Now().Add(20 * time.Second)
		return 20 * time.Second
	case time.Now().Before(m.until) && time.Until(m.until) < 20*time.Second-50*time.Millisecond, m.inFlight == 8,
		m.count(time.Since(m.began), used) < 0:
		m.denied++
		return time.Second
	}
	m.served += used
	m.inFlight++
	m.most = max(m.most, m.inFlight)
	m.mu.Unlock()
	time.Sleep(time.Duration(used) * m.perToken)
	m.mu.Lock()
	m.inFlight--
	return 0
}

// part and takeBoth are those of docs/clients.md.
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

// TestTaken_ThreeLimitsOfAModel_AreAcceptedByTheProvider: the client of docs/clients.md in three processes, while
// tokens, places or both are scarce. Quickly, only both are.
func TestTaken_ThreeLimitsOfAModel_AreAcceptedByTheProvider(t *testing.T) {
	const window, lasts = 20 * time.Second, 80 * time.Second
	rows := []struct{ least, spread, perToken, calls, tokens int64 }{
		{100, 400, 12, 100, 60}, {500, 600, 3, 40, 60}, {200, 200, 25, 50, 30},
	}
	for _, row := range rows[:redistest.Deep(1, len(rows))] {
		redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
			f.Latency.Store(int64(time.Millisecond))
			perWindow, tokensPerWindow := sliding(40, window), sliding(12_000, window)
			m := &model{provider: provider{began: time.Now()}, perToken: time.Duration(row.perToken) * time.Millisecond}
			m.count = both(perWindow, tokensPerWindow)
			ctx, cancel := context.WithTimeout(t.Context(), lasts)
			defer cancel()
			var all sync.WaitGroup
			for range 3 {
				client := rratelimiter.New(f.Conn)
				requests := limit.New(client, "{model}:requests", limit.SlidingLog{Permits: 40, Interval: window + time.Second},
					limit.InFlight{Permits: 8, Lease: 2 * time.Minute}, limit.Pause{Most: time.Hour})
				tokens := limit.New(client, "{model}:tokens", limit.SlidingLog{Permits: 12_000, Interval: window + time.Second},
					limit.Pause{Most: time.Hour})
				for range redistest.Deep(4, 10) {
					all.Go(func() {
						for {
							var call, spent limit.Taken
							used := row.least + rand.N(row.spread)
							if takeBoth(ctx, part{&call, 1, requests}, part{&spent, used, tokens}) != nil {
								assert.NoError(t, call.Settle(ctx))
								assert.NoError(t, spent.Settle(ctx))
								return
							}
							if pause := m.call(used); pause > 0 {
								assert.NoError(t, requests.Pause(ctx, pause))
								assert.NoError(t, tokens.Pause(ctx, pause))
								used = 0
							}
							time.Sleep(rand.N(10 * time.Millisecond))
							assert.NoError(t, call.Settle(ctx, 1))
							assert.NoError(t, spent.Settle(ctx, used))
						}
					})
				}
			}
			all.Wait()
			each, err := limit.New(rratelimiter.New(f.Conn), "{model}:requests",
				limit.InFlight{Permits: 8, Lease: 2 * time.Minute}).Peek(t.Context())
			require.NoError(t, err)
			assert.EqualValues(t, 8, each[0].Remaining, "all places are back")
			use := 100 * m.served / (12_000 * int64(lasts/window))
			t.Logf("%d calls, %d at once at most, %d refused, %d %% of the tokens", m.calls, m.most, m.denied, use)
			assert.Zero(t, m.denied)
			assert.LessOrEqual(t, m.most, int64(8))
			assert.GreaterOrEqual(t, m.calls, row.calls)
			assert.GreaterOrEqual(t, use, row.tokens)
		})
	}
}

// Callers take an estimate before a call, and settle for the tokens of the answer: a fifth of the longest
// answer on average, and 100 a second. The quota is counted by what the answers have used.
func TestTaken_Estimates_OfTheLongestAnswerAndOfTheMean(t *testing.T) {
	const quota, longest, mean = 90_000, 4000, 800
	lasts := time.Duration(redistest.Deep(2, 3)) * time.Minute
	rows := []struct {
		estimate, refused, least, most int64
	}{{mean * 3 / 2, 12, 93, 100}, {longest, 0, 60, 80}, {mean, 30, 93, 100}}
	for _, row := range rows[:redistest.Deep(2, len(rows))] {
		redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
			f.Latency.Store(int64(time.Millisecond))
			p := &provider{count: sliding(quota, time.Minute), began: time.Now()}
			ctx, cancel := context.WithTimeout(t.Context(), lasts)
			defer cancel()
			var all sync.WaitGroup
			for range 3 { // processes
				tokens := limit.New(rratelimiter.New(f.Conn), "tokens",
					limit.SlidingLog{Permits: quota, Interval: 61 * time.Second})
				for range 10 {
					all.Go(func() {
						for {
							var taken limit.Taken
							if taken.Acquire(ctx, row.estimate, tokens) != nil {
								return
							}
							used := 1 + rand.N[int64](2*mean)
							time.Sleep(time.Duration(used) * 10 * time.Millisecond)
							p.request(used)
							assert.NoError(t, taken.Settle(ctx, used))
						}
					})
				}
			}
			all.Wait()
			use := 100 * p.served / (quota * int64(lasts.Minutes()))
			t.Logf("estimate %d: %d %% of the quota, %d refused", row.estimate, use, p.denied)
			assert.LessOrEqual(t, p.denied, row.refused)
			assert.GreaterOrEqual(t, use, row.least)
			assert.LessOrEqual(t, use, row.most)
		})
	}
}

// Each row of the table in docs/clients.md, against providers of its kind.
func TestTransport_PoliciesOfThePage_AreAcceptedByProviders(t *testing.T) {
	const second, minute, day = time.Second, time.Minute, 24 * time.Hour
	tens, millions := sliding(10, second), fixed(1_000_000, 31*day)
	rows := map[string]struct {
		policies []limit.Policy
		lasts    time.Duration
		quota    int64
		cost     int64 // of each request
		kinds    map[string]counter
	}{
		"100 requests per minute": {
			[]limit.Policy{limit.SlidingLog{Permits: 100, Interval: 61 * time.Second}}, 2 * minute, 200, 1,
			map[string]counter{
				"sliding": sliding(100, minute), "fixed": fixed(100, minute), "bucket": bucket(100, minute/100),
			},
		},
		"5 per second": {
			[]limit.Policy{limit.SlidingLog{Permits: 5, Interval: 1050 * time.Millisecond}}, 20 * second, 100, 1,
			map[string]counter{"sliding": sliding(5, second), "fixed": fixed(5, second), "bucket": bucket(5, second/5)},
		},
		"10 per second, bursts of 20": {
			[]limit.Policy{limit.TokenBucket{Capacity: 19, Refill: 10, Interval: time.Second}}, 20 * second, 220, 1,
			map[string]counter{"bucket": bucket(20, second/10)},
		},
		"one request every 200 ms": {
			[]limit.Policy{limit.TokenBucket{Capacity: 1, Refill: 1, Interval: 215 * time.Millisecond}}, 20 * second, 100, 1,
			map[string]counter{"spacing": sliding(1, second/5)},
		},
		"1,000 per day, reset at 00:00 UTC": {
			[]limit.Policy{limit.Calendar{Permits: 1000, Unit: limit.Day}}, 20 * second, 2000, 10,
			map[string]counter{"fixed": fixed(1000, day)},
		},
		"10 per second and 1,000,000 a month": {
			[]limit.Policy{limit.SlidingLog{Permits: 10, Interval: 1050 * time.Millisecond},
				limit.Calendar{Permits: 1_000_000, Unit: limit.Month}}, 20 * second, 200, 1,
			map[string]counter{"both": both(tens, millions)},
		},
	}
	for text, row := range rows {
		for kind, count := range row.kinds {
			t.Run(text+", "+kind, func(t *testing.T) {
				redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
					f.Latency.Store(int64(time.Millisecond))
					time.Sleep(day - 10*second) // the clock begins at midnight
					p := &provider{count: count}
					base := roundTrip(func(*http.Request) (*http.Response, error) {
						p.request(row.cost)
						return response(200), nil
					})
					p.saturate(t, f, row.lasts, row.quota, func(client *rratelimiter.Client) func(context.Context) error {
						all := httplimit.All(limit.New(client, "paid", row.policies...))
						transport := httplimit.Transport(base, all, httplimit.Cost(func(*http.Request) int64 { return row.cost }))
						return func(ctx context.Context) error {
							_, err := transport.RoundTrip(request().WithContext(ctx))
							return err
						}
					})
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
		if !slices.Contains(takenRows, text) {
			assert.Contains(t, rows, text)
		}
		for _, one := range strings.Split(strings.Split(code, "`")[1], ", limit.") {
			assert.True(t, strings.Contains(string(source), "limit."+strings.TrimPrefix(one, "limit.")), one)
		}
	}
	assert.Equal(t, len(rows)+len(takenRows), found)
}
