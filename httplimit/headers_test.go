package httplimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redistest/fake"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Numbers have 15 digits at most. examples/routers reads the fields with a parser.
func TestRateLimit_OddNamesAndNumbers_AreStructuredFields(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		odd := limit.Named(`a\b"c`, limit.FixedWindow{Permits: 1 << 53, Interval: time.Minute})
		h := serve(httplimit.Middleware(perIP(client, odd))(ok), request()).Header()
		assert.Equal(t, []string{`"a\\b\"c";q=999999999999999;w=60`}, h["Ratelimit-Policy"])
		assert.Equal(t, []string{`"a\\b\"c";r=999999999999999;t=60`}, h["Ratelimit"])
	})
}

func TestHeaders_Times_AreRoundedUp(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		choose := perIP(client, limit.FixedWindow{Permits: 1, Interval: 10 * time.Second})
		time.Sleep(300 * time.Millisecond)
		begin := time.Now().Truncate(time.Second)
		assert.Equal(t, 200, serve(httplimit.Middleware(choose)(ok), request()).Code)
		time.Sleep(time.Millisecond) // the window ends 9,999 ms later
		h := serve(httplimit.Middleware(choose, httplimit.Headers(httplimit.XRateLimit))(ok), request()).Header()
		assert.Equal(t, "10", h.Get("Retry-After"))
		assert.Equal(t, fmt.Sprint(begin.Add(11*time.Second).Unix()), h.Get("X-RateLimit-Reset"))
		h = serve(httplimit.Middleware(choose, httplimit.Headers(httplimit.ThreeHeaders))(ok), request()).Header()
		assert.Equal(t, "10", h.Get("RateLimit-Reset"))
	})
}

// A Pause has no quota: a denial names it, and shows the numbers of the other policies.
func TestHeaders_Pause_ShowsTheOtherPolicies(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		policies := []limit.Policy{hour(5), limit.Pause{Most: time.Hour}}
		choose := perIP(client, policies...)
		get := func(style httplimit.HeaderStyle, opts ...httplimit.Option) *httptest.ResponseRecorder {
			return serve(httplimit.Middleware(choose, append(opts, httplimit.Headers(style))...)(ok), request())
		}
		h := get(httplimit.Draft11).Header()
		assert.Equal(t, []string{`"hour";q=5;w=3600`}, h["Ratelimit-Policy"])
		assert.Equal(t, []string{`"hour";r=4;t=3600`}, h["Ratelimit"])
		require.NoError(t, limit.New(client, "web:192.0.2.1", policies...).Pause(t.Context(), 30*time.Second))
		denied := get(httplimit.Draft11)
		assert.Equal(t, 429, denied.Code)
		assert.Contains(t, denied.Body.String(), `"violated-policies":["pause"]`)
		assert.Equal(t, "30", denied.Header().Get("Retry-After"))
		assert.Equal(t, []string{`"hour";q=5;w=3600`}, denied.Header()["Ratelimit-Policy"])
		h = get(httplimit.ThreeHeaders).Header()
		assert.Equal(t, "5", h.Get("RateLimit-Limit"))
		assert.Equal(t, "0", h.Get("RateLimit-Remaining"))
		assert.Equal(t, "30", h.Get("RateLimit-Reset"))
	})
}

// A Penalty is in no header before it denies. Then a denial names it, and shows the numbers of the others.
func TestHeaders_Penalty_ShowsTheOtherPolicies(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		minute := limit.FixedWindow{Permits: 1, Interval: time.Minute}
		choose := perIP(client, minute, limit.Penalty{Denials: 2, Within: time.Minute, For: 10 * time.Minute})
		get := func() *httptest.ResponseRecorder { return serve(httplimit.Middleware(choose)(ok), request()) }
		for _, want := range []struct{ limits, after, violated string }{
			{`"minute";r=0;t=60`, "", ""}, {`"minute";r=0;t=60`, "60", "minute"}, {`"minute";r=0;t=60`, "600", "penalty"},
		} {
			r := get()
			assert.Equal(t, []string{`"minute";q=1;w=60`}, r.Header()["Ratelimit-Policy"])
			assert.Equal(t, []string{want.limits}, r.Header()["Ratelimit"])
			assert.Equal(t, want.after, r.Header().Get("Retry-After"))
			assert.Contains(t, r.Body.String(), want.violated)
		}
		time.Sleep(9 * time.Minute)
		r := get()
		assert.Equal(t, 429, r.Code)
		assert.Contains(t, r.Body.String(), `"violated-policies":["penalty"]`)
		assert.Equal(t, "60", r.Header().Get("Retry-After"))
	})
}

// In a denial, Reset is the time of Retry-After. RateLimit describes the limits, whose time is exact.
// The t of a policy with permits left is at most that of the policy that denies.
func TestSpread_HeaderStyles_DelayResetButNotWindow(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		choose := perIP(client, limit.FixedWindow{Permits: 1, Interval: 10 * time.Second}, hour(5))
		get := func(style httplimit.HeaderStyle, spread time.Duration) http.Header {
			return serve(httplimit.Middleware(choose, httplimit.Headers(style), httplimit.Spread(spread),
				httplimit.WithRandom(func(n int64) int64 { return n / 2 }))(ok), request()).Header()
		}
		h := get(httplimit.ThreeHeaders, time.Minute)
		assert.Equal(t, "10", h.Get("RateLimit-Reset"), "of a grant")
		assert.Empty(t, h.Get("Retry-After"))
		h = get(httplimit.ThreeHeaders, time.Minute)
		assert.Equal(t, "40", h.Get("RateLimit-Reset"))
		assert.Equal(t, "40", h.Get("Retry-After"))
		h = get(httplimit.XRateLimit, time.Minute)
		assert.Equal(t, fmt.Sprint(time.Now().Add(40*time.Second).Unix()), h.Get("X-RateLimit-Reset"))
		for spread, after := range map[time.Duration]string{0: "10", time.Minute: "40"} {
			h = get(httplimit.Draft11, spread)
			assert.Equal(t, []string{`"10s";r=0;t=10, "hour";r=4;t=10`}, h["Ratelimit"], "spread %v", spread)
			assert.Equal(t, after, h.Get("Retry-After"))
		}
	})
}

func TestRateLimit_NumbersKnown_AreThoseOfRedis(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		cost, perMinute := int64(0), limit.FixedWindow{Permits: 10, Interval: time.Minute}
		handler := httplimit.Middleware(perIP(client, perMinute), httplimit.Wait(2*time.Minute),
			httplimit.Cost(func(*http.Request) int64 { return cost }))(ok)
		for _, c := range []struct {
			cost int64
			want []string
		}{
			{0, nil}, {7, []string{`"minute";r=3;t=60`}}, {11, nil},
			{4, []string{`"minute";r=6;t=60`}}, // after a wait
		} {
			cost = c.cost
			assert.Equal(t, c.want, serve(handler, request()).Header()["Ratelimit"], "cost %d", c.cost)
		}
		for _, style := range []httplimit.HeaderStyle{httplimit.ThreeHeaders, httplimit.XRateLimit} {
			tooMuch := httplimit.Cost(func(*http.Request) int64 { return 11 })
			w := serve(httplimit.Middleware(perIP(client, perMinute), tooMuch, httplimit.Headers(style))(ok), request())
			assert.Equal(t, http.Header{"Cache-Control": {"no-store"}, "Content-Type": {"application/problem+json"}}, w.Header())
		}
	})
}

// TestRateLimit_QuotaUnknown_IsLeftOut: 7 permits are more than the 5 per hour, and not more than the
// 50 of the policy without a description.
func TestRateLimit_QuotaUnknown_IsLeftOut(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		shared := client.Limiter("paid")
		require.NoError(t, shared.SetRate(t.Context(), rratelimiter.Rate{Permits: 50, Interval: time.Hour}))
		both := limit.Join(limit.New(client, "web", hour(5)), shared)
		paid := limit.Named("paid", nil)
		for _, c := range []struct {
			limiter httplimit.Limiter
			cost    int64
			policy  []string
			denied  string
		}{
			{both, 7, []string{`"hour";q=5;w=3600`}, `["hour"]`},
			{both, 1, []string{`"hour";q=5;w=3600, "default";q=50`}, ""},
			{guardtest.Known{Joinable: shared, Of: []limit.Policy{hour(5), paid}}, 1,
				[]string{`"hour";q=5;w=3600, "paid";q=50`}, ""},
			{guardtest.Known{Joinable: shared, Of: []limit.Policy{paid}}, 60, nil, `["paid"]`},
			{unnumbered, 1, nil, `["hour"]`},
		} {
			w := serve(httplimit.Middleware(httplimit.All(c.limiter),
				httplimit.Cost(func(*http.Request) int64 { return c.cost }))(ok), request())
			assert.Equal(t, c.policy, w.Header()["Ratelimit-Policy"], "cost %d", c.cost)
			if c.denied != "" {
				assert.Contains(t, w.Body.String(), `"violated-policies":`+c.denied)
			}
		}
	})
}

// unnumbered is a limiter that reports no numbers.
var unnumbered = &fake.Limiter{Of: []limit.Policy{hour(5), limit.Named("paid", nil)},
	OnTry: func(_ context.Context, _ engine.Ask, result *engine.Result) error {
		result.Parts = []engine.Decision{{}, {Allowed: true}}
		return nil
	}}

var effective = regexp.MustCompile(`;r=(\d+)(?:;t=(\d+))?$`)

// Each policy, and a share of it, grants at most r permits within t of a response, whatever was
// taken before.
func TestRateLimit_EffectiveWindow_HasNoMorePermits(t *testing.T) {
	pause := time.Duration(redistest.Deep(400, 100)) * time.Millisecond
	for name, policy := range map[string]limit.Policy{
		"window":         limit.FixedWindow{Permits: 10, Interval: 20 * time.Second},
		"aligned window": limit.FixedWindow{Permits: 10, Interval: 20 * time.Second, Aligned: true},
		"sliding window": limit.SlidingWindow{Permits: 10, Interval: 20 * time.Second},
		"sliding log":    limit.SlidingLog{Permits: 10, Interval: 20 * time.Second},
		"token bucket":   limit.TokenBucket{Capacity: 10, Refill: 2, Interval: 7 * time.Second},
		"leaky bucket":   limit.LeakyBucket{Capacity: 10, Leak: 2, Interval: 7 * time.Second},
		"smooth":         limit.Smooth{Permits: 2, Interval: 5 * time.Second, Burst: 10 * time.Second},
	} {
		for mode, outage := range map[string]bool{"": false, ", outage": true, ", second of two": false} {
			t.Run(name+mode, func(t *testing.T) {
				guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
					cost, policies := int64(1), []limit.Policy{policy}
					if mode == ", second of two" {
						policies = []limit.Policy{limit.TokenBucket{Capacity: 3, Refill: 3, Interval: 3 * time.Second}, policy}
					}
					handler := httplimit.Middleware(perIP(client, policies...),
						httplimit.Cost(func(*http.Request) int64 { return cost }),
						httplimit.OnFailure(limit.Local(1)))(ok)
					if outage {
						f.Redis.SetError("LOADING")
					}
					random, seen := rand.New(rand.NewPCG(1, 2)), 0
					for round := 0; round < redistest.Deep(4, 25) || seen == 0 && round < 25; round++ {
						var text string
						time.Sleep(time.Duration(random.IntN(50)) * time.Second)
						for range 1 + random.IntN(4) {
							time.Sleep(time.Duration(random.IntN(2900)) * time.Millisecond)
							cost = 1 + random.Int64N(3)
							text = serve(handler, request()).Header().Get("RateLimit")
						}
						r, window := parse(f, text)
						if window == 0 {
							continue
						}
						end := time.Now().Add(window)
						seen += int(window)
						had, last := int64(0), window
						for cost = 1; had <= r; {
							if serve(handler, request()).Code == 200 {
								had++
							} else if time.Sleep(pause); !time.Now().Before(end) {
								break
							}
							last = time.Until(end)
						}
						require.LessOrEqual(t, had, r, "%s: %v before its end there were more", text, last)
					}
					assert.Positive(t, seen, "no response had t")
				})
			})
		}
	}
}

// TestRateLimit_InFlight_HasNoEffectiveWindow, since a place may return at any time; in an outage too.
func TestRateLimit_InFlight_HasNoEffectiveWindow(t *testing.T) {
	for _, outage := range []bool{false, true} {
		guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
			var inside []string
			var handler http.Handler
			handler = httplimit.Middleware(perIP(client, limit.InFlight{Permits: 2, Lease: time.Minute}),
				httplimit.OnFailure(limit.Local(1)))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				if w := serve(handler, request()); w.Code == http.StatusTooManyRequests {
					inside = append(inside, w.Header().Get("RateLimit"), w.Header().Get("Retry-After"))
				}
			}))
			if outage {
				f.Redis.SetError("LOADING")
			}
			assert.Equal(t, `"in-flight";r=1`, serve(handler, request()).Header().Get("RateLimit"))
			assert.Equal(t, []string{`"in-flight";r=0`, "1"}, inside)
		})
	}
}

// TestHeaders_OlderStyles_LeaveInFlightOut: they have no place for a quota without a time. A denial still has
// Retry-After.
func TestHeaders_OlderStyles_LeaveInFlightOut(t *testing.T) {
	places := limit.InFlight{Permits: 2, Lease: 2 * time.Minute}
	for style, field := range map[httplimit.HeaderStyle]string{
		httplimit.ThreeHeaders: "Ratelimit-", httplimit.XRateLimit: "X-Ratelimit-",
	} {
		for _, rate := range []bool{true, false} {
			guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
				policies := []limit.Policy{limit.FixedWindow{Permits: 100, Interval: time.Minute}, places}
				if !rate {
					policies = policies[1:]
				}
				var all []http.Header
				var handler http.Handler
				handler = httplimit.Middleware(perIP(client, policies...), httplimit.Headers(style))(
					http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
						if len(all) < 5 {
							all = append(all, nil)
							all = append(all, serve(handler, request()).Header())
						}
					}))
				all = append(all, serve(handler, request()).Header())
				for i, left := range map[int]string{len(all) - 1: "99", len(all) - 2: "98", len(all) - 3: "98"} {
					want := []string{"100", left}
					if !rate {
						want = []string{"", ""}
					}
					assert.Equal(t, want, []string{all[i].Get(field + "Limit"), all[i].Get(field + "Remaining")}, "%s %d", field, i)
				}
				assert.Equal(t, "1", all[len(all)-3].Get("Retry-After"))
			})
		}
	}
}

// parse returns the parameters r and t of RateLimit, 0 for none.
func parse(f *redistest.Fixture, text string) (r int64, t time.Duration) {
	if text == "" {
		return 0, 0 // the request costs more than a share ever holds
	}
	found := effective.FindStringSubmatch(text)
	require.NotNil(f, found, text)
	r, err := strconv.ParseInt(found[1], 10, 64)
	require.NoError(f, err)
	seconds, _ := strconv.Atoi(found[2])
	return r, time.Duration(seconds) * time.Second
}

// TestHeaders_LongestReset_IsInTheFuture: the time until a bucket is full may be the longest duration.
func TestHeaders_LongestReset_IsInTheFuture(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		bucket := limit.New(client, "bytes", limit.TokenBucket{Capacity: 1000, Refill: 1, Interval: 365 * 24 * time.Hour})
		w := serve(httplimit.Middleware(httplimit.All(bucket), httplimit.Headers(httplimit.XRateLimit),
			httplimit.Cost(func(*http.Request) int64 { return 500 }))(ok), request())
		reset, err := strconv.ParseInt(w.Header().Get("X-RateLimit-Reset"), 10, 64)
		require.NoError(t, err)
		assert.Greater(t, reset, time.Now().Unix())
	})
}
