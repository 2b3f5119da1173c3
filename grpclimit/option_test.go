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

func TestSettings_InvalidForGRPC_Panic(t *testing.T) {
	for name, f := range map[string]func(){
		"no choice":            func() { grpclimit.UnaryServerInterceptor(nil) },
		"no choice of streams": func() { grpclimit.StreamServerInterceptor(nil) },
		"no choice for calls":  func() { grpclimit.UnaryClientInterceptor(nil) },
		"no choice, streams":   func() { grpclimit.StreamClientInterceptor(nil) },
		"no key":               func() { grpclimit.Each(new(rratelimiter.Client), "api", nil, hour(1)) },
		"no name":              func() { grpclimit.Each(new(rratelimiter.Client), "", grpclimit.ByIP(), hour(1)) },
		"a share of nothing":   func() { grpclimit.Local(0) },
		"a mode":               func() { grpclimit.OnFailure(2) },
		"a name's letters":     func() { grpclimit.Named("é", hour(1)) },
		"no policy's name":     func() { grpclimit.Named("", hour(1)) },
	} {
		assert.Panics(t, f, name)
	}
}
