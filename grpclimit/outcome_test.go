package grpclimit_test

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/limit"
)

// A call without its API key is the client's fault, and no failure of Redis.
func ExampleOutcome() {
	perKey := grpclimit.Each(connect(), "api", grpclimit.ByMetadata("api-key"),
		limit.FixedWindow{Permits: 1, Interval: time.Hour})
	report := func(_ context.Context, _ grpclimit.Call, o grpclimit.Outcome) { fmt.Println(o) }
	c, stop := start(limitedBy(perKey, unhurried, grpclimit.Report(report)))
	defer stop()
	fmt.Println(status.Code(call(noContext, c)))
	// Output:
	// result=invalid error="grpclimit: metadata api-key: want one value that is not empty: got 0 values"
	// InvalidArgument
}
