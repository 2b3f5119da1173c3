package rules

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// endless is a stream of a server that always has another message.
type endless struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *endless) Context() context.Context { return s.ctx }

func (*endless) RecvMsg(any) error { return nil }

// received returns how many of some messages of a stream pass the rules of a file. The handler
// receives on after a denial, and calls Settle with a cost of 1 after each message.
func received(b *redistest.Fixture, client *rratelimiter.Client, file string, messages int) (passed int) {
	set := parsed(b, file)
	info := &grpc.StreamServerInfo{FullMethod: "/shop.Orders/Upload"}
	err := set.StreamServerInterceptor(client, grpclimit.EachMessage())(nil, &endless{ctx: b.Context()}, info,
		func(_ any, ss grpc.ServerStream) error {
			for range messages {
				if err := ss.RecvMsg(nil); err == nil {
					passed++
				} else {
					assert.Equal(b, codes.ResourceExhausted, grpcstatus.Code(err))
				}
				assert.NoError(b, Settle(ss.Context(), 1))
			}
			return nil
		})
	assert.NoError(b, err)
	return passed
}

// TestStreamServerInterceptor_LaterRuleDeniesMessage_RefundsEarlierRules, and no permits of the
// messages that passed.
func TestStreamServerInterceptor_LaterRuleDeniesMessage_RefundsEarlierRules(t *testing.T) {
	const wide, middle = "{name: wide, key: all, limits: {policy: fixed_window, rate: 10/h}, deadline: 1s}",
		"{name: middle, key: all, limits: {policy: fixed_window, rate: 9/h}, deadline: 2s}"
	for name, rules := range map[string]string{
		"two rules":       wide,
		"three rules":     wide + ", " + middle,
		"a shadow before": "{name: shadow, key: all, limits: 1/h, shadow: true}, " + wide,
		"a shadow after":  wide + ", {name: shadow, key: all, limits: 1/h, shadow: true}",
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
				all := "match: all\nrules: [" + rules + ", {name: narrow, key: all, limits: {policy: fixed_window, rate: 2/h}, deadline: 3s}]"
				assert.Equal(b, 2, received(b, client, all, 8))
				assert.Zero(b, received(b, client, all, 8))
				left, err := limit.New(client, "wide", limit.FixedWindow{Permits: 10, Interval: time.Hour}).Peek(b.Context())
				if assert.NoError(b, err) {
					assert.EqualValues(b, 8, left[0].Remaining)
				}
				synctest.Wait()
			})
		})
	}
}

// TestStreamServerInterceptor_HealthAndReflection_PassUnlessNamed: a rule for all methods does not
// limit them.
func TestStreamServerInterceptor_HealthAndReflection_PassUnlessNamed(t *testing.T) {
	for method, limits := range map[string]map[string]bool{
		"/grpc.health.v1.Health/Check": {"/grpc.health.v1.Health/Check": true,
			"/grpc.health.v1.Health/*": true},
		"grpc.health.v1.Health/Watch":                               {"/grpc.health.v1.Health/*": true},
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": {"/grpc.reflection.v1.ServerReflection/*": true},
		"/shop.Orders/Create":                                       {"": true, `"*"`: true},
	} {
		for _, match := range []string{
			"", `"*"`, "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/*", "/grpc.reflection.v1.ServerReflection/*",
		} {
			field := ""
			if match != "" {
				field = "match: {grpc: " + match + "}, "
			}
			set := parsed(t, one(field+"ban: true"))
			want := codes.OK
			if limits[match] {
				want = codes.ResourceExhausted
			}
			_, err := set.UnaryServerInterceptor(offline)(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: method},
				func(context.Context, any) (any, error) { return nil, nil })
			assert.Equal(t, want, grpcstatus.Code(err), "%s by a rule for %s", method, match)
		}
	}
}
