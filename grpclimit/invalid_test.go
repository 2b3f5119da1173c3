package grpclimit_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

const invalidText = "InvalidArgument: the call lacks what its limit needs\ngrpc-retry-pushback-ms: -1\n"

// TestUnaryServerInterceptor_InvalidRequest_IsRefusedWithoutRetryInfo: a client gains nothing by leaving something
// out, and learns that no retry helps.
func TestUnaryServerInterceptor_InvalidRequest_IsRefusedWithoutRetryInfo(t *testing.T) {
	byTenant, below := grpclimit.ByMetadata("X-Tenant"), grpclimit.Cost(func(context.Context, grpclimit.Call) int64 { return -1 })
	for name, c := range map[string]struct {
		key  grpclimit.Key
		opts []grpclimit.Option
		want string
	}{
		"metadata that is missing": {byTenant, nil, invalidText},
		"open":                     {byTenant, []grpclimit.Option{grpclimit.OnFailure(grpclimit.Open)}, invalidText},
		"a share":                  {byTenant, []grpclimit.Option{grpclimit.OnFailure(grpclimit.Local(1))}, invalidText},
		"combined":                 {grpclimit.Combined(grpclimit.ByIP(), byTenant), nil, invalidText},
		"a cost below 0":           {grpclimit.ByIP(), []grpclimit.Option{below}, invalidText},
		"as a failure":             {byTenant, []grpclimit.Option{grpclimit.InvalidAsFailure()}, closedText},
		"as a failure, open":       {byTenant, []grpclimit.Option{grpclimit.InvalidAsFailure(), grpclimit.OnFailure(grpclimit.Open)}, "OK"},
		"shadow":                   {byTenant, []grpclimit.Option{grpclimit.Shadow()}, "OK"},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
				var got grpclimit.Outcome
				opts := slices.Concat(c.opts, []grpclimit.Option{grpclimit.Report(func(_ context.Context, _ grpclimit.Call, o grpclimit.Outcome) { got = o })})
				assert.Equal(b, c.want, get(b, unary(b, new(service), grpclimit.Each(client, "api", c.key, hour(9)), opts...)))
				assert.ErrorIs(b, got.Err, grpclimit.ErrInvalidRequest)
			})
		})
	}
}
