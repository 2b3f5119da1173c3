package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	test "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// one is a limiter of one permit an hour, in place of yours.
func one(client *rratelimiter.Client) func(context.Context, grpclimit.Call) (grpclimit.Limiter, error) {
	return grpclimit.Each(client, "api", grpclimit.ByIP(), limit.FixedWindow{Permits: 1, Interval: time.Hour})
}

// A call costs as many permits as it asks for bytes.
func ExampleCost() {
	client := connect()

	bytes := grpclimit.Cost(func(_ context.Context, call grpclimit.Call) int64 {
		return int64(call.Message.(*test.SimpleRequest).GetResponseSize())
	})
	perClient := grpclimit.Each(client, "bytes", grpclimit.ByIP(),
		limit.TokenBucket{Capacity: 3, Refill: 1, Interval: time.Minute})
	c, stop := start(limitedBy(perClient, bytes))
	defer stop()
	for _, size := range []int32{0, 2, 2, 4} {
		_, err := c.UnaryCall(noContext, &test.SimpleRequest{ResponseSize: size})
		fmt.Println(status.Code(err), len(status.Convert(err).Details()))
	}
	// Output:
	// OK 0
	// OK 0
	// ResourceExhausted 2
	// ResourceExhausted 1
}

// Calls of one method are not limited.
func ExampleSkip() {
	client := connect()

	c, stop := start(limitedBy(one(client), grpclimit.Skip(func(_ context.Context, call grpclimit.Call) bool {
		return strings.HasSuffix(call.Method, "/UnaryCall")
	})))
	defer stop()
	for range 2 {
		fmt.Println(status.Code(call(noContext, c)))
	}
	// Output:
	// OK
	// OK
}

// A short wait instead of a denial.
func ExampleWait() {
	client := rratelimiter.New(redistest.Example()) // on the clock of the machine

	perClient := grpclimit.Each(client, "api", grpclimit.ByIP(),
		limit.TokenBucket{Capacity: 1, Refill: 100, Interval: time.Second})
	c, stop := start(limitedBy(perClient, grpclimit.Wait(time.Minute)))
	defer stop()
	for range 3 {
		fmt.Println(status.Code(call(noContext, c)))
	}
	// Output:
	// OK
	// OK
	// OK
}

// Clients that were refused at the same time retry at different times.
func ExampleSpread() {
	client := connect()

	c, stop := start(limitedBy(one(client), grpclimit.Spread(time.Minute)))
	defer stop()
	_ = call(noContext, c)
	for _, d := range status.Convert(call(noContext, c)).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			after := info.GetRetryDelay().AsDuration().Round(time.Second)
			fmt.Println(after >= time.Hour && after <= time.Hour+time.Minute)
		}
	}
	// Output: true
}

// What a limit would deny, before it does.
func ExampleShadow() {
	client := connect()

	report := func(_ context.Context, call grpclimit.Call, o limit.Outcome) {
		fmt.Println(call.Method, o.Limiter, o.Result, o.Violated)
	}
	c, stop := start(limitedBy(one(client), grpclimit.Shadow(), grpclimit.Report(report)))
	defer stop()
	for range 2 {
		fmt.Println(status.Code(call(noContext, c)))
	}
	// Output:
	// /grpc.testing.TestService/UnaryCall api:127.0.0.1 acquired []
	// OK
	// /grpc.testing.TestService/UnaryCall api:127.0.0.1 rejected [hour]
	// OK
}

// down is a limiter whose Redis does not answer.
type down struct{}

func (down) Take(context.Context, int64) (rratelimiter.Decision, error) {
	return rratelimiter.Decision{}, errors.New("connection refused")
}

// Name identifies the bucket of Local.
func (down) Name() string { return "down" }

// Policies states of what Local grants a share.
func (down) Policies() []limit.Policy {
	return []limit.Policy{limit.FixedWindow{Permits: 8, Interval: time.Minute}}
}

func ExampleOnFailure() {
	for _, mode := range []limit.FailureMode{limit.Open, limit.Closed} {
		c, stop := start([]grpc.ServerOption{grpc.UnaryInterceptor(
			grpclimit.UnaryServerInterceptor(grpclimit.All(down{}), grpclimit.OnFailure(mode),
				grpclimit.Deadline(20*time.Millisecond)))})
		fmt.Println(call(noContext, c))
		stop()
	}
	// Output:
	// <nil>
	// rpc error: code = Unavailable desc = calls cannot be admitted at the moment
}

// Four processes share a limit of eight a minute, so each grants two of them by itself while Redis
// is down.
func ExampleOnFailure_local() {
	c, stop := start(limitedBy(grpclimit.All(down{}),
		grpclimit.OnFailure(limit.Local(0.25)),
		grpclimit.OnRedisChange(func(_ string, up bool, err error) { fmt.Println("up:", up, err) })))
	defer stop()
	for range 2 {
		fmt.Println(status.Code(call(noContext, c)))
	}
	// Output:
	// up: false rratelimiter: limiter "down": Redis: connection refused
	// OK
	// ResourceExhausted
}

// A handler sees the permits that remain.
func ExampleFromContext() {
	client := connect()

	// In place of yours.
	handler := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if o, limited := grpclimit.FromContext(ctx); limited {
			fmt.Println(o.Decision.Remaining, "of", o.Decision.Limit, "left")
		}
		return next(ctx, req)
	}
	c, stop := start([]grpc.ServerOption{grpc.ChainUnaryInterceptor(grpclimit.UnaryServerInterceptor(one(client),
		unhurried), handler)})
	defer stop()
	fmt.Println(status.Code(call(noContext, c)))
	// Output:
	// 0 of 1 left
	// OK
}

// Calls that fail alone count.
func ExampleSettle() {
	client := connect()

	// In place of yours.
	handler := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		answer, err := next(ctx, req)
		if req.(*test.SimpleRequest).GetFillUsername() {
			err = status.Error(codes.NotFound, "no such user")
		}
		if err == nil {
			err = grpclimit.Settle(ctx, 0)
		}
		return answer, err
	}
	c, stop := start([]grpc.ServerOption{grpc.ChainUnaryInterceptor(grpclimit.UnaryServerInterceptor(one(client),
		unhurried,
		grpclimit.OnSettleError(func(_ context.Context, _ grpclimit.Call, err error) { fmt.Println(err) })), handler)})
	defer stop()
	for _, guesses := range []bool{false, false, true, false} {
		_, err := c.UnaryCall(noContext, &test.SimpleRequest{FillUsername: guesses})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// NotFound
	// ResourceExhausted
}
