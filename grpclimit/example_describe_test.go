package grpclimit_test

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/limit"
)

// A chooser of one's own, whose limiters have policies of their own for reports and clients to see.
func ExampleDescribe() {
	client := connect()

	policies := []limit.Policy{limit.FixedWindow{Permits: 5, Interval: time.Second},
		grpclimit.Named("quota", limit.FixedWindow{Permits: 1, Interval: time.Minute})}
	describe := grpclimit.Describe(policies...)
	choose := func(context.Context, grpclimit.Call) (grpclimit.Limiter, error) {
		return describe(limit.New(client, "all", limit.FixedWindow{Permits: 5, Interval: time.Second},
			limit.FixedWindow{Permits: 1, Interval: time.Minute})), nil
	}
	report := grpclimit.Report(func(_ context.Context, _ grpclimit.Call, o grpclimit.Outcome) {
		fmt.Println(o.Result, o.Violated())
	})
	intercept := grpclimit.UnaryServerInterceptor(choose, unhurried, report)
	for range 2 {
		// The result of the call is of no interest here.
		_, _ = intercept(noContext, nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) { return nil, nil })
	}
	// Output:
	// acquired []
	// rejected [quota]
}
