package grpclimit_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	test "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/bubble"
	"github.com/rratelimiter/rratelimiter/limit"
)

const (
	anHour = "ResourceExhausted: the call is over its limit\nRetryInfo: retry_delay 1h0m0s\n" +
		`QuotaFailure: subject "", description "the limit \"hour\" of 1 has too few permits left", quota_metric "permits", quota_id "hour", quota_value 1` +
		"\ngrpc-retry-pushback-ms: -1\n"
	closedText = "Unavailable: calls cannot be admitted at the moment\nRetryInfo: retry_delay 1s\ngrpc-retry-pushback-ms: 1000\n"
)

// No limiter, however it is written, lets a call pass as it is.
func TestNoLimiter(t *testing.T) {
	for name, limiter := range map[string]grpclimit.Limiter{
		"nil": nil, "nil *limit.Limiter": (*limit.Limiter)(nil), "nil *rratelimiter.Limiter": (*rratelimiter.Limiter)(nil), "nil func": fake(nil),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.WithValue(t.Context(), key{}, "mine")
			for _, opts := range [][]grpclimit.Option{nil, {nil, grpclimit.Skip(func(context.Context, grpclimit.Call) bool { return true })}} {
				answer, err := grpclimit.UnaryServerInterceptor(grpclimit.All(limiter), opts...)(ctx, "request", &grpc.UnaryServerInfo{},
					func(got context.Context, req any) (any, error) {
						assert.Equal(t, ctx, got)
						_, limited := grpclimit.FromContext(got)
						assert.False(t, limited)
						assert.NoError(t, grpclimit.Settle(got, 5))
						return req, nil
					})
				assert.NoError(t, err)
				assert.Equal(t, "request", answer)
			}
		})
	}
}

type key struct{}

const secret = "what only the operator may see"

// What cannot be told is decided by the failure mode, and why is told to nobody but Report.
func TestWhatCannotBeTold(t *testing.T) {
	failing := func(context.Context, grpclimit.Call) (grpclimit.Limiter, error) {
		return nil, status.Error(codes.NotFound, secret)
	}
	for name, c := range map[string]struct {
		choose choice
		opts   []grpclimit.Option
		want   string
		result grpclimit.Result
	}{
		"closed":  {failing, nil, closedText, grpclimit.FailedClosed},
		"open":    {failing, []grpclimit.Option{grpclimit.OnFailure(grpclimit.Open)}, "OK", grpclimit.FailedOpen},
		"a share": {failing, []grpclimit.Option{grpclimit.OnFailure(grpclimit.Local(1))}, closedText, grpclimit.FailedClosed},
		"a cost below 0": {
			grpclimit.All(new(limit.Limiter)), []grpclimit.Option{grpclimit.Cost(func(context.Context, grpclimit.Call) int64 { return -1 })},
			closedText, grpclimit.FailedClosed,
		},
		"a cost below 0, open": {
			grpclimit.All(new(limit.Limiter)),
			[]grpclimit.Option{grpclimit.Cost(func(context.Context, grpclimit.Call) int64 { return -1 }), grpclimit.OnFailure(grpclimit.Open)},
			"OK", grpclimit.FailedOpen,
		},
		"a limiter without a client": {grpclimit.All(new(limit.Limiter)), nil, closedText, grpclimit.FailedClosed},
		"a limiter that fails": {
			grpclimit.All(fake(func(context.Context, int64) (rratelimiter.Decision, error) {
				return rratelimiter.Decision{}, status.Error(codes.NotFound, secret)
			})), nil, closedText, grpclimit.FailedClosed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble.Bubble, _ *rratelimiter.Client) {
				s := new(service)
				var got grpclimit.Outcome
				report := grpclimit.Report(func(_ context.Context, _ grpclimit.Call, o grpclimit.Outcome) { got = o })
				assert.Equal(b, c.want, get(b, unary(b, s, c.choose, append([]grpclimit.Option{report}, c.opts...)...)))
				assert.Equal(b, c.result, got.Result)
				assert.Error(b, got.Err)
				assert.Equal(b, c.want == "OK", s.served.Load() == 1)
			})
		})
	}
}

func TestCost(t *testing.T) {
	inBubble(t, func(b *bubble.Bubble, client *rratelimiter.Client) {
		s := new(service)
		c := unary(b, s, perIP(client, hour(10)), grpclimit.Cost(func(_ context.Context, call grpclimit.Call) int64 {
			assert.Equal(b, "/grpc.testing.TestService/UnaryCall", call.Method)
			return int64(call.Message.(*test.SimpleRequest).GetResponseSize())
		}))
		for _, row := range []struct {
			cost int32
			want string
		}{
			{0, "OK"}, {7, "OK"},
			{4, "ResourceExhausted: the call is over its limit\nRetryInfo: retry_delay 1h0m0s\n" +
				`QuotaFailure: subject "", description "the limit \"hour\" of 10 has too few permits left", quota_metric "permits", quota_id "hour", quota_value 10` +
				"\ngrpc-retry-pushback-ms: -1\n"},
			{3, "OK"},
			{11, "ResourceExhausted: the call is over its limit\n" +
				`QuotaFailure: subject "", description "the call costs more than the limit \"hour\" of 10 ever grants", quota_metric "permits", quota_id "hour", quota_value 10` +
				"\ngrpc-retry-pushback-ms: -1\n"},
		} {
			assert.Equal(b, row.want, getOf(b, c, row.cost), "cost %d", row.cost)
		}
		assert.EqualValues(b, 3, s.served.Load())
	})
}

// A call that waits is served as soon as it can be, and refused at once where it cannot in time.
func TestWait(t *testing.T) {
	inBubble(t, func(b *bubble.Bubble, client *rratelimiter.Client) {
		s := new(service)
		c := unary(b, s, perIP(client, limit.FixedWindow{Permits: 1, Interval: 3 * time.Second}), grpclimit.Wait(2*time.Second))
		require.Equal(b, "OK", get(b, c))
		begin := time.Now()
		assert.Contains(b, get(b, c), "grpc-retry-pushback-ms: 3000\n")
		assert.Zero(b, time.Since(begin))
		bubble.Pass(1500 * time.Millisecond)
		assert.Equal(b, "OK", get(b, c))
		assert.Equal(b, 3*time.Second, time.Since(begin))
		assert.EqualValues(b, 2, s.served.Load())
	})
}

// A call whose caller leaves while it waits, or will have left by then, does not get to the handler.
func TestCallersThatLeave(t *testing.T) {
	inBubble(t, func(b *bubble.Bubble, client *rratelimiter.Client) {
		limiter := grpclimit.UnaryServerInterceptor(perIP(client, limit.FixedWindow{Permits: 1, Interval: 3 * time.Second}), grpclimit.Wait(time.Hour))
		ask := func(ctx context.Context) error {
			_, err := limiter(from(ctx, "192.0.2.1:1"), nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) { return nil, nil })
			return err
		}
		require.NoError(b, ask(b.Context()))
		begin := time.Now()
		short, stop := context.WithTimeout(b.Context(), time.Second)
		defer stop()
		assert.Equal(b, "DeadlineExceeded: the call ended before it was admitted\n", told(b, ask(short), nil))
		assert.Zero(b, time.Since(begin), "it knows at once")
		leaves, leave := context.WithCancel(b.Context())
		time.AfterFunc(time.Second, leave)
		assert.Equal(b, "Canceled: the call ended before it was admitted\n", told(b, ask(leaves), nil))
		assert.Equal(b, time.Second, time.Since(begin))
	})
}

func TestShadowDecidesAndLetsPass(t *testing.T) {
	inBubble(t, func(b *bubble.Bubble, client *rratelimiter.Client) {
		s := new(service)
		var results []string
		c := unary(b, s, perIP(client, hour(1)), grpclimit.Shadow(), grpclimit.Wait(2*time.Hour),
			grpclimit.Report(func(_ context.Context, _ grpclimit.Call, o grpclimit.Outcome) {
				assert.True(b, o.Shadow)
				assert.Equal(b, "api:192.0.2.1", o.Limiter)
				results = append(results, o.Result.String())
			}))
		for range 2 {
			assert.Equal(b, "OK", get(b, c))
		}
		b.Redis.Server().Close()
		assert.Equal(b, "OK", get(b, c))
		assert.Equal(b, []string{"acquired", "rejected", "failed_closed"}, results)
		assert.EqualValues(b, 3, s.served.Load())
	})
}

// What refusals tell, of one policy and of several, with names and a subject that was asked for.
func TestRefusals(t *testing.T) {
	inBubble(t, func(b *bubble.Bubble, client *rratelimiter.Client) {
		subject := "tenant:gold"
		choose := grpclimit.Each(client, "api", grpclimit.ByIP(), grpclimit.Named("calls", hour(1)),
			limit.TokenBucket{Capacity: 1, Refill: 1, Interval: time.Second}, limit.FixedWindow{Permits: 9, Interval: 24 * time.Hour})
		c := unary(b, new(service), choose, grpclimit.Subject(func(context.Context, grpclimit.Call) string { return subject }))
		require.Equal(b, "OK", get(b, c))
		two := `QuotaFailure: subject "tenant:gold", description "the limit \"calls\" of 1 has too few permits left", quota_metric "permits", quota_id "calls", quota_value 1` + "\n" +
			`QuotaFailure: subject "tenant:gold", description "the limit \"bucket\" of 1 has too few permits left", quota_metric "permits", quota_id "bucket", quota_value 1` + "\n"
		assert.Equal(b, "ResourceExhausted: the call is over its limit\nRetryInfo: retry_delay 1h0m0s\n"+two+"grpc-retry-pushback-ms: -1\n", get(b, c))
		subject = "\xff"
		assert.Contains(b, get(b, c), `QuotaFailure: subject "", description "the limit \"calls\"`)

		quota := client.Limiter("of the operator")
		require.NoError(b, quota.SetRate(b.Context(), rratelimiter.Rate{Permits: 1, Interval: time.Minute}))
		c = unary(b, new(service), grpclimit.All(quota))
		require.Equal(b, "OK", get(b, c))
		assert.Equal(b, "ResourceExhausted: the call is over its limit\nRetryInfo: retry_delay 1m0s\n"+
			`QuotaFailure: subject "", description "the limit \"default\" of 1 has too few permits left", quota_metric "permits", quota_id "default", quota_value 1`+
			"\ngrpc-retry-pushback-ms: 60000\n", get(b, c))
	})
}

// Several interceptors around a handler each decide, and the innermost outcome is the handler's.
func TestSeveralInterceptors(t *testing.T) {
	inBubble(t, func(b *bubble.Bubble, client *rratelimiter.Client) {
		s := &service{unary: func(ctx context.Context, _ *test.SimpleRequest) error {
			o, limited := grpclimit.FromContext(ctx)
			assert.True(b, limited)
			assert.Equal(b, "some:192.0.2.1", o.Limiter)
			assert.EqualValues(b, 0, o.Decision.Remaining)
			return nil
		}}
		c := serve(b, s, grpc.ChainUnaryInterceptor(grpclimit.UnaryServerInterceptor(perIP(client, hour(10))),
			grpclimit.UnaryServerInterceptor(grpclimit.Each(client, "some", grpclimit.ByIP(), hour(1))))).dial()
		assert.Equal(b, "OK", get(b, c))
		assert.Equal(b, anHour, get(b, c), "one trailer, and the details of the one that refused")
	})
}

// What can never work says so at once.
func TestWrongSettingsPanic(t *testing.T) {
	client := new(rratelimiter.Client)
	for name, f := range map[string]func(){
		"no choice":            func() { grpclimit.UnaryServerInterceptor(nil) },
		"no choice of streams": func() { grpclimit.StreamServerInterceptor(nil) },
		"no choice for calls":  func() { grpclimit.UnaryClientInterceptor(nil) },
		"no choice, streams":   func() { grpclimit.StreamClientInterceptor(nil) },
		"no client":            func() { grpclimit.Each(client, "api", grpclimit.ByIP(), hour(1)) },
		"no key":               func() { grpclimit.Each(client, "api", nil, hour(1)) },
		"no name":              func() { grpclimit.Each(client, "", grpclimit.ByIP(), hour(1)) },
		"a share of nothing":   func() { grpclimit.Local(0) },
		"a share above all":    func() { grpclimit.Local(1.1) },
		"a mode":               func() { grpclimit.OnFailure(2) },
		"a deadline":           func() { grpclimit.Deadline(0) },
		"a wait":               func() { grpclimit.Wait(0) },
		"a name's letters":     func() { grpclimit.Named("é", hour(1)) },
		"no policy's name":     func() { grpclimit.Named("", hour(1)) },
	} {
		assert.Panics(t, f, name)
	}
	inBubble(t, func(b *bubble.Bubble, client *rratelimiter.Client) {
		for name, policies := range map[string][]limit.Policy{
			"none": {}, "a bad one": {limit.FixedWindow{}}, "two equal ones": {hour(1), hour(2)},
		} {
			assert.Panics(b, func() { perIP(client, policies...) }, name)
		}
		assert.EqualValues(b, 1, b.Scripts.Load(), "nothing was asked but by the helper")
	})
}

// A panic in a handler or a callback is its caller's, and the next call finds all as it was.
func TestPanics(t *testing.T) {
	for _, where := range []string{"handler", "choose", "skip", "cost", "report", "subject", "changed"} {
		t.Run(where, func(t *testing.T) {
			inBubble(t, func(b *bubble.Bubble, client *rratelimiter.Client) {
				var broken atomic.Bool
				breaks := func(here string) {
					if here == where && broken.Load() {
						panic(here)
					}
				}
				permits := int64(3)
				if where == "subject" {
					permits = 2
				}
				choose := perIP(client, hour(permits))
				s := &service{unary: func(context.Context, *test.SimpleRequest) error { breaks("handler"); return nil }}
				recovers := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
					defer func() {
						if p := recover(); p != nil {
							err = status.Errorf(codes.Internal, "%v", p)
						}
					}()
					return handler(ctx, req)
				}
				c := serve(b, s, grpc.ChainUnaryInterceptor(recovers, grpclimit.UnaryServerInterceptor(
					func(ctx context.Context, call grpclimit.Call) (grpclimit.Limiter, error) {
						breaks("choose")
						return choose(ctx, call)
					},
					grpclimit.Skip(func(context.Context, grpclimit.Call) bool { breaks("skip"); return false }),
					grpclimit.Cost(func(context.Context, grpclimit.Call) int64 { breaks("cost"); return 1 }),
					grpclimit.Report(func(context.Context, grpclimit.Call, grpclimit.Outcome) { breaks("report") }),
					grpclimit.Subject(func(context.Context, grpclimit.Call) string { breaks("subject"); return "" }),
					grpclimit.OnFailure(grpclimit.Open), grpclimit.OnStoreChange(func(bool, error) { breaks("changed") }),
				))).dial()
				require.Equal(b, "OK", get(b, c))
				switch where {
				case "subject":
					require.Equal(b, "OK", get(b, c))
				case "changed":
					bubble.Pass(time.Minute)
					b.Latency.Store(int64(time.Minute))
				}
				broken.Store(true)
				assert.True(b, strings.HasPrefix(get(b, c), "Internal: "+where))
				broken.Store(false)
				b.Latency.Store(0)
				bubble.Pass(2 * time.Minute)
				if where == "subject" {
					assert.Contains(b, get(b, c), "ResourceExhausted")
				} else {
					assert.Equal(b, "OK", get(b, c))
				}
			})
		})
	}
}

// A limiter that is nobody's fault to lack a rate is a failure, not an outage.
func TestALimiterWithoutARate(t *testing.T) {
	inBubble(t, func(b *bubble.Bubble, client *rratelimiter.Client) {
		c := unary(b, new(service), grpclimit.All(client.Limiter("none")), grpclimit.OnStoreChange(func(bool, error) { b.Error("no outage") }))
		assert.Equal(b, closedText, get(b, c))
	})
}

// An error of the handler's is its own.
func TestErrorsOfHandlers(t *testing.T) {
	inBubble(t, func(b *bubble.Bubble, client *rratelimiter.Client) {
		s := &service{unary: func(context.Context, *test.SimpleRequest) error { return errors.New("theirs") }}
		assert.Equal(b, "Unknown: theirs\n", get(b, unary(b, s, perIP(client, hour(1)))))
	})
}
