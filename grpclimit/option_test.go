package grpclimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

func TestWait_ContextEnds_StatusNamesTheReason(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		limiter := grpclimit.UnaryServerInterceptor(perIP(client, limit.FixedWindow{Permits: 1, Interval: 3 * time.Second}),
			grpclimit.Wait(time.Hour))
		ask := func(ctx context.Context) error {
			_, err := limiter(from(ctx, "192.0.2.1:1"), nil, &grpc.UnaryServerInfo{},
				func(context.Context, any) (any, error) { return nil, nil })
			return err
		}
		require.NoError(b, ask(b.Context()))
		begin := time.Now()
		short, stop := context.WithTimeout(b.Context(), time.Second)
		defer stop()
		assert.Equal(b, "DeadlineExceeded: the call ended before it was admitted\n", received(b, ask(short), nil))
		assert.Zero(b, time.Since(begin), "it knows at once")
		leaves, leave := context.WithCancel(b.Context())
		time.AfterFunc(time.Second, leave)
		assert.Equal(b, "Canceled: the call ended before it was admitted\n", received(b, ask(leaves), nil))
		assert.Equal(b, time.Second, time.Since(begin))
	})
}

func TestOptions_Invalid_PanicWithTheReason(t *testing.T) {
	client, none := new(rratelimiter.Client), limit.FixedWindow{}
	guardtest.TestPanics(t, map[string]func(){
		"grpclimit: UnaryServerInterceptor: choose is nil":  func() { grpclimit.UnaryServerInterceptor(nil) },
		"grpclimit: StreamServerInterceptor: choose is nil": func() { grpclimit.StreamServerInterceptor(nil) },
		"grpclimit: UnaryClientInterceptor: choose is nil":  func() { grpclimit.UnaryClientInterceptor(nil) },
		"grpclimit: StreamClientInterceptor: choose is nil": func() { grpclimit.StreamClientInterceptor(nil) },
		`grpclimit: Each: name "api": the Key is nil`:       func() { grpclimit.Each(client, "api", nil, hour(1)) },
		`grpclimit: Each: name "": rratelimiter: `:          func() { grpclimit.Each(client, "", grpclimit.ByIP(), hour(1)) },
		"grpclimit: Policies: rratelimiter: invalid rate: ": func() { grpclimit.Policies(none) },
		"grpclimit: Describe: rratelimiter: invalid rate: ": func() { grpclimit.Describe(grpclimit.Named("x", none)) },
		"grpclimit: Local: the share is out of range: 0: ":  func() { grpclimit.Local(0) },
		"grpclimit: OnFailure: a share of the limit is 2":   func() { grpclimit.OnFailure(2) },
		`grpclimit: Named: the name "é" of a policy`:        func() { grpclimit.Named("é", hour(1)) },
		`grpclimit: Named: the name "" of a policy`:         func() { grpclimit.Named("", hour(1)) },
	})
}
