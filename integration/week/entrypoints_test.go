package week

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/limit"
	"github.com/rratelimiter/rratelimiter/rules"
	"github.com/rratelimiter/rratelimiter/rules/grpcrules"
)

const (
	shared   = "paid-api"  // the limiter that Java shares
	interval = time.Second // of all limiters
	patience = 10 * time.Second
)

// entryPoint is a limiter, a middleware or an interceptor of the library.
type entryPoint struct {
	name   string
	most   int64         // grants of an interval, as a multiple of the rate
	ahead  time.Duration // permits are used up to this time after Redis has counted them
	java   bool          // Java shares the limiter
	cached bool          // a denial from before a loss of data may be answered
	client []rratelimiter.Option
	open   func(client *rratelimiter.Client, rate int64) calls
}

// calls are the calls of a process.
type calls struct {
	try, wait func(ctx context.Context) (bool, error)
}

var entryPoints = []entryPoint{
	{name: "Limiter", most: 1, java: true, open: openLimiter},
	{name: "Limiter with a denial cache", most: 1, java: true, cached: true, open: openLimiter,
		client: []rratelimiter.Option{rratelimiter.WithDenialCache(interval / 4)}},
	{name: "Limiter with leases", most: 1, java: true, ahead: interval / 16, open: openLimiter,
		client: []rratelimiter.Option{rratelimiter.WithPrefetch(interval / 20)}},

	policy(2, ahead, func(rate int64) limit.Policy {
		return limit.TokenBucket{Capacity: rate, Refill: rate, Interval: interval}
	}),
	policy(2, ahead, func(rate int64) limit.Policy {
		return limit.LeakyBucket{Capacity: rate, Leak: rate, Interval: interval}
	}),
	policy(3, ahead, func(rate int64) limit.Policy { return limit.Smooth{Permits: rate, Interval: interval} }),
	policy(2, 0, func(rate int64) limit.Policy { return limit.FixedWindow{Permits: rate, Interval: interval} }),
	policy(1, 0, func(rate int64) limit.Policy { return limit.SlidingWindow{Permits: rate, Interval: interval} }),
	policy(1, 0, func(rate int64) limit.Policy { return limit.SlidingLog{Permits: rate, Interval: interval} }),
	{name: "Join", most: 1, java: true, open: func(client *rratelimiter.Client, rate int64) calls {
		tenant := limit.New(client, "tenant", limit.TokenBucket{Capacity: 2 * rate, Refill: 2 * rate, Interval: interval})
		return callsOf(limit.Join(tenant, sharedLimiter(client, rate)))
	}},

	{name: "httplimit.All", most: 1, java: true, open: func(client *rratelimiter.Client, rate int64) calls {
		return overHTTP(httplimit.All(sharedLimiter(client, rate)))
	}},
	{name: "httplimit.Each", most: 2, ahead: ahead, open: func(client *rratelimiter.Client, rate int64) calls {
		return overHTTP(httplimit.Each(client, "web", httplimit.ByHeader("X-Tenant"),
			limit.TokenBucket{Capacity: rate, Refill: rate, Interval: interval}))
	}},
	{name: "grpclimit.All", most: 1, java: true, open: func(client *rratelimiter.Client, rate int64) calls {
		return overGRPC(grpclimit.All(sharedLimiter(client, rate)))
	}},
	{name: "grpclimit.Each", most: 1, open: func(client *rratelimiter.Client, rate int64) calls {
		return overGRPC(grpclimit.Each(client, "api", grpclimit.ByMetadata("x-tenant"),
			limit.SlidingWindow{Permits: rate, Interval: interval}))
	}},
	// A file sets the rate, as rules.Watch does at the start.
	{name: "rules over HTTP", most: 1, java: true, open: func(client *rratelimiter.Client, rate int64) calls {
		h := ruleSet(client, rate, "/try", "/wait").Middleware(client)(served)
		return calls{try: httpCall(h, "/try"), wait: httpCall(h, "/wait")}
	}},
	{name: "rules over gRPC", most: 1, java: true, open: func(client *rratelimiter.Client, rate int64) calls {
		set := ruleSet(client, rate, "{grpc: /shop/Try}", "{grpc: /shop/Wait}")
		unary := grpcrules.UnaryServerInterceptor(set, client)
		return calls{try: grpcCall(unary, "/shop/Try"), wait: grpcCall(unary, "/shop/Wait")}
	}},
}

// sharedLimiter opens the limiter that Java shares, as a program that sets its rate does.
func sharedLimiter(client *rratelimiter.Client, rate int64) *rratelimiter.Limiter {
	return client.Limiter(shared, rratelimiter.InitialRate(rateOf(rate)))
}

// rateOf returns the rate of the shared limiter, which does not outlive a night.
func rateOf(permits int64) rratelimiter.Rate {
	return rratelimiter.Rate{Permits: permits, Interval: interval, KeepAlive: time.Hour}
}

func openLimiter(client *rratelimiter.Client, rate int64) calls {
	return callsOf(sharedLimiter(client, rate))
}

// policy returns the entry point of a policy of package limit.
func policy(most int64, ahead time.Duration, of func(rate int64) limit.Policy) entryPoint {
	return entryPoint{name: fmt.Sprintf("%T", of(1)), most: most, ahead: ahead,
		open: func(client *rratelimiter.Client, rate int64) calls {
			return callsOf(limit.New(client, "name", of(rate)))
		}}
}

func callsOf(l interface {
	TryAcquire(ctx context.Context, permits int64) (bool, error)
	Acquire(ctx context.Context, permits int64) error
}) calls {
	return calls{
		try: func(ctx context.Context) (bool, error) { return l.TryAcquire(ctx, 1) },
		wait: func(ctx context.Context) (bool, error) {
			err := l.Acquire(ctx, 1)
			return err == nil, err
		},
	}
}

// served is what is limited.
var served = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

func overHTTP(choose func(*http.Request) (httplimit.Limiter, error)) calls {
	return calls{
		try:  httpCall(httplimit.Middleware(choose)(served), "/"),
		wait: httpCall(httplimit.Middleware(choose, httplimit.Wait(patience))(served), "/"),
	}
}

func httpCall(h http.Handler, path string) func(ctx context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
		r.Header.Set("X-Tenant", "7")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch w.Code {
		case http.StatusOK, http.StatusTooManyRequests:
			return w.Code == http.StatusOK, nil
		default:
			return false, fmt.Errorf("status %d: %s", w.Code, w.Body)
		}
	}
}

func overGRPC(choose func(context.Context, grpclimit.Call) (grpclimit.Limiter, error)) calls {
	return calls{
		try:  grpcCall(grpclimit.UnaryServerInterceptor(choose), "/shop/Try"),
		wait: grpcCall(grpclimit.UnaryServerInterceptor(choose, grpclimit.Wait(patience)), "/shop/Wait"),
	}
}

func grpcCall(unary grpc.UnaryServerInterceptor, method string) func(ctx context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("x-tenant", "7"))
		_, err := unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: method},
			func(context.Context, any) (any, error) { return nil, nil })
		if status.Code(err) == codes.ResourceExhausted {
			return false, nil
		}
		return err == nil, err
	}
}

// ruleSet returns the rules for requests that try and for those that wait.
func ruleSet(client *rratelimiter.Client, rate int64, try, wait string) *rules.Set {
	limits := fmt.Sprintf("on_failure: open, limits: {redisson: %s, rate: %d/s, keep_alive: 1h}", shared, rate)
	set, err := rules.Parse("rules.yaml", fmt.Appendf(nil,
		"rules:\n- {name: try, match: %s, %s}\n- {name: wait, match: %s, wait: %v, %[2]s}\n", try, limits, wait, patience))
	if err != nil {
		panic(err)
	}
	if err := set.SetRates(context.Background(), client); err != nil {
		panic(err)
	}
	return set
}
