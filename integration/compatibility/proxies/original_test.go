package proxies

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/rueidis"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	originalRedis  = "ORIGINAL_REDIS" // where the Redis of the original's design is
	originalListen = "ORIGINAL_LISTEN"
)

// TestMain runs the original's design if the environment selects it, for a benchmark.
func TestMain(m *testing.M) {
	if redis := os.Getenv(originalRedis); redis != "" {
		if err := serveOriginal(redis, os.Getenv(originalListen)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveOriginal serves until its input is closed.
func serveOriginal(redis, address string) error {
	conn, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis}, DisableCache: true})
	if err != nil {
		return err
	}
	defer conn.Close()
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	ratelimit.RegisterRateLimitServiceServer(server, &counting{redis: conn})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Stop()
	}()
	return server.Serve(l)
}

// counting is the original's design: a pipeline of INCRBY and EXPIRE for each request, and a reply
// by the count.
type counting struct {
	ratelimit.UnimplementedRateLimitServiceServer
	redis rueidis.Client
}

func (c *counting) ShouldRateLimit(ctx context.Context,
	r *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	entry := r.GetDescriptors()[0].GetEntries()[0]
	now := time.Now().Unix()
	key := r.GetDomain() + "_" + entry.GetKey() + "_" + entry.GetValue() + "_" + strconv.FormatInt(now/3600*3600, 10)
	replies := c.redis.DoMulti(ctx, c.redis.B().Incrby().Key(key).Increment(1).Build(),
		c.redis.B().Expire().Key(key).Seconds(3600).Build())
	count, err := replies[0].AsInt64()
	if err != nil {
		return nil, err
	}
	one := &ratelimit.RateLimitResponse_DescriptorStatus{
		Code: ratelimit.RateLimitResponse_OK,
		CurrentLimit: &ratelimit.RateLimitResponse_RateLimit{RequestsPerUnit: benchLimit,
			Unit: ratelimit.RateLimitResponse_RateLimit_HOUR},
		LimitRemaining:     uint32(max(0, benchLimit-count)),
		DurationUntilReset: &durationpb.Duration{Seconds: 3600 - now%3600},
	}
	if count > benchLimit {
		one.Code = ratelimit.RateLimitResponse_OVER_LIMIT
	}
	return &ratelimit.RateLimitResponse{OverallCode: one.GetCode(),
		Statuses: []*ratelimit.RateLimitResponse_DescriptorStatus{one}}, nil
}
