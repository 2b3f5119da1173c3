package proxies

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/servers"
	"github.com/rratelimiter/rratelimiter/rls"
)

const (
	streams    = 256
	conns      = 4
	turn       = 250 * time.Millisecond // of a side: the machine's speed changes within seconds
	benchLimit = 1_000_000_000
	benchRules = "domain: bench\ndescriptors:\n  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1000000000}}\n"
)

// counting is the original's design: for each request one pipeline of INCRBY and EXPIRE, and an answer by the count.
type counting struct {
	ratelimit.UnimplementedRateLimitServiceServer
	redis rueidis.Client
}

func (c *counting) ShouldRateLimit(ctx context.Context, r *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	entry := r.GetDescriptors()[0].GetEntries()[0]
	now := time.Now().Unix()
	key := r.GetDomain() + "_" + entry.GetKey() + "_" + entry.GetValue() + "_" + strconv.FormatInt(now/3600*3600, 10)
	replies := c.redis.DoMulti(ctx, c.redis.B().Incrby().Key(key).Increment(1).Build(), c.redis.B().Expire().Key(key).Seconds(3600).Build())
	count, err := replies[0].AsInt64()
	if err != nil {
		return nil, err
	}
	one := &ratelimit.RateLimitResponse_DescriptorStatus{
		Code:               ratelimit.RateLimitResponse_OK,
		CurrentLimit:       &ratelimit.RateLimitResponse_RateLimit{RequestsPerUnit: benchLimit, Unit: ratelimit.RateLimitResponse_RateLimit_HOUR},
		LimitRemaining:     uint32(max(0, benchLimit-count)),
		DurationUntilReset: &durationpb.Duration{Seconds: 3600 - now%3600},
	}
	if count > benchLimit {
		one.Code = ratelimit.RateLimitResponse_OVER_LIMIT
	}
	return &ratelimit.RateLimitResponse{OverallCode: one.GetCode(), Statuses: []*ratelimit.RateLimitResponse_DescriptorStatus{one}}, nil
}

// ask is how a request gets to a service.
type ask func(context.Context, *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error)

// side is a service under load.
type side struct {
	name  string
	redis rueidis.Client
	ends  func(context.Context) error // of its turn, so that what it leaves behind is not done in another's; nil for nothing
	asks  []ask
	rates []float64
	p99s  []time.Duration
	cpu   []time.Duration // of this process and of Redis, a decision: what is left where others use the machine
}

// newSide is a service that is asked over loopback, or without gRPC.
func newSide(b *testing.B, name string, redis rueidis.Client, service ratelimit.RateLimitServiceServer, direct bool, opts ...grpc.ServerOption) *side {
	s := &side{name: name, redis: redis}
	if direct {
		s.asks = []ask{service.ShouldRateLimit}
		return s
	}
	l, _ := listen(b)
	server := grpc.NewServer(opts...)
	ratelimit.RegisterRateLimitServiceServer(server, service)
	go func() { _ = server.Serve(l) }() // it is stopped
	b.Cleanup(server.Stop)
	for range conns {
		conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(b, err)
		b.Cleanup(func() { conn.Close() })
		client := ratelimit.NewRateLimitServiceClient(conn)
		s.asks = append(s.asks, func(ctx context.Context, r *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
			return client.ShouldRateLimit(ctx, r)
		})
	}
	return s
}

// used is the processor's time that this process and Redis have used so far.
func (s *side) used(b *testing.B) (total time.Duration) {
	var own syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &own))
	total = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	text, err := s.redis.Do(b.Context(), s.redis.B().Info().Section("cpu").Build()).ToString()
	require.NoError(b, err)
	for line := range strings.Lines(text) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name == "used_cpu_user" || name == "used_cpu_sys" {
			seconds, err := strconv.ParseFloat(value, 64)
			require.NoError(b, err)
			total += time.Duration(seconds * float64(time.Second))
		}
	}
	return total
}

// load asks for a while, on all streams at once, and notes how many answers there were a second, and how long all but a hundredth took
// at most.
func (s *side) load(b *testing.B, keys int, d time.Duration) {
	took := make([][]time.Duration, streams)
	before := s.used(b)
	end := time.Now().Add(d)
	var all sync.WaitGroup
	for i := range streams {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			ask := s.asks[i%len(s.asks)]
			for now := time.Now(); now.Before(end); {
				r := &ratelimit.RateLimitRequest{Domain: "bench", Descriptors: []*common.RateLimitDescriptor{
					{Entries: []*common.RateLimitDescriptor_Entry{{Key: "user", Value: strconv.Itoa(random.IntN(keys))}}},
				}}
				answer, err := ask(b.Context(), r)
				if err != nil || answer.GetOverallCode() != ratelimit.RateLimitResponse_OK {
					b.Errorf("%s: %v %v, want it granted", s.name, answer, err)
					return
				}
				after := time.Now()
				took[i] = append(took[i], after.Sub(now))
				now = after
			}
		})
	}
	all.Wait()
	times := slices.Concat(took...)
	slices.Sort(times)
	s.rates = append(s.rates, float64(len(times))/d.Seconds())
	s.p99s = append(s.p99s, times[len(times)*99/100])
	s.cpu = append(s.cpu, (s.used(b)-before)/time.Duration(len(times)))
	if s.ends != nil {
		require.NoError(b, s.ends(b.Context()))
	}
}

// BenchmarkBeside is the service, without and with leases of a second, beside the original's design on one Redis, in turns. Each figure is
// a median of the rounds; ratios, of decisions, and what it is behind at the 99th percentile are within a round.
func BenchmarkBeside(b *testing.B) {
	redis := servers.Single(b)
	open := func() rueidis.Client {
		conn, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis.Addr()}, DisableCache: true})
		require.NoError(b, err)
		b.Cleanup(conn.Close)
		return conn
	}
	file := filepath.Join(b.TempDir(), "bench.yaml")
	require.NoError(b, os.WriteFile(file, []byte(benchRules), 0o600))
	service := func(client *rratelimiter.Client) *rls.Server {
		s, err := rls.New(rls.Config{Client: client, Path: file, Log: slog.New(slog.DiscardHandler), Deadline: 10 * time.Second})
		require.NoError(b, err)
		return s
	}
	conn, leases := open(), rratelimiter.New(open(), rratelimiter.WithLease(time.Second))
	plain, leased := service(rratelimiter.New(open())), service(leases)
	for _, c := range []struct {
		keys   int
		direct bool
	}{{1, false}, {10_000, false}, {1, true}, {10_000, true}} {
		b.Run(fmt.Sprintf("keys=%d/grpc=%v", c.keys, !c.direct), func(b *testing.B) {
			theirs := newSide(b, "theirs", conn, &counting{redis: conn}, c.direct)
			workers := grpc.NumStreamWorkers(streams) // as rrl serve has them
			sides := []*side{theirs, newSide(b, "plain", conn, plain, c.direct, workers), newSide(b, "leased", conn, leased, c.direct, workers)}
			sides[2].ends = leases.Flush
			for _, s := range sides {
				s.load(b, c.keys, time.Second) // connected, warm
				s.rates, s.p99s, s.cpu = nil, nil, nil
			}
			for round := 0; b.Loop(); round++ {
				for i := range sides {
					sides[(round+i)%len(sides)].load(b, c.keys, turn)
				}
			}
			for _, s := range sides {
				b.ReportMetric(median(s.rates), s.name+"/s")
				b.ReportMetric(float64(median(s.p99s).Microseconds()), s.name+"-p99-us")
				b.ReportMetric(float64(median(s.cpu).Nanoseconds())/1000, s.name+"-cpu-us")
				if s == theirs {
					continue
				}
				var ratios []float64
				var behind []time.Duration
				for i := range s.rates {
					ratios = append(ratios, s.rates[i]/theirs.rates[i])
					behind = append(behind, s.p99s[i]-theirs.p99s[i])
				}
				b.ReportMetric(median(ratios), s.name+"-ratio")
				b.ReportMetric(float64(median(behind).Microseconds()), s.name+"-p99-behind-us")
			}
		})
	}
}

func median[T float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
