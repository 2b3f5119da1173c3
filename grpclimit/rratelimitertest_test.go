package grpclimit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/limit"
	"github.com/rratelimiter/rratelimiter/rratelimitertest"
)

// TestUnaryServerInterceptor_UsersTest_NeedsNoServer shows how users test a limited method: with
// package rratelimitertest.
func TestUnaryServerInterceptor_UsersTest_NeedsNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := rratelimitertest.New(t)
		orders := limit.New(env.Client, "orders", limit.FixedWindow{Permits: 1, Interval: time.Minute})
		intercept := grpclimit.UnaryServerInterceptor(grpclimit.All(orders), grpclimit.OnFailure(grpclimit.Closed))
		call := func() codes.Code {
			_, err := intercept(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/shop.Orders/Place"},
				func(context.Context, any) (any, error) { return nil, nil })
			return status.Code(err)
		}
		assert.Equal(t, codes.OK, call())
		assert.Equal(t, codes.ResourceExhausted, call())
		env.Clock.Advance(time.Minute)
		assert.Equal(t, codes.OK, call())
		env.Redis.Fail(errors.New("connection refused"))
		env.Clock.Advance(time.Minute)
		assert.Equal(t, codes.Unavailable, call())
	})
}
