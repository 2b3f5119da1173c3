package proxies

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

const (
	turn       = 250 * time.Millisecond // short, since the speed of the machine changes
	benchLimit = 1_000_000_000
	benchRules = "domain: bench\ndescriptors:\n  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1000000000}}\n"
)

// BenchmarkBeside compares rrl serve, without and with prefetches of a second, with the original's
// design, in turns. Each is a process of its own on one Redis. The original has Go's default
// garbage collection; "tuned" has the environment of the image.
func BenchmarkBeside(b *testing.B) {
	redis, file := servers.Single(b).Addr(), filepath.Join(b.TempDir(), "bench.yaml")
	require.NoError(b, os.WriteFile(file, []byte(benchRules), 0o600))
	rrl := filepath.Join(b.TempDir(), "rrl")
	build := exec.Command("go", "build", "-o", rrl, ".")
	build.Dir = "../../../cmd/rrl"
	out, err := build.CombinedOutput()
	require.NoError(b, err, "%s", out)
	self, err := os.Executable()
	require.NoError(b, err)
	image := []string{"GOGC=400"} // the environment of the image
	original := []string{originalRedis + "=" + redis, originalListen + "=127.0.0.1:PORT"}
	serve := []string{"serve", file, "--grpc", "127.0.0.1:PORT", "--http", "", "--redis", "redis://" + redis,
		"--deadline", "10s"}
	for _, keys := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			contenders := []*contender{
				newProcess(b, "theirs", original, self),
				newProcess(b, "tuned", append(image, original...), self),
				newProcess(b, "plain", image, rrl, serve...),
				newProcess(b, "prefetching", image, rrl, append(serve[:len(serve):len(serve)], "--prefetch", "1s")...),
			}
			contenders[3].rest = 1100 * time.Millisecond // until its prefetches have ended
			inTurns(b, contenders, keys)
		})
	}
}

// inTurns runs all contenders in each round, each time in another order.
func inTurns(b *testing.B, contenders []*contender, keys int) {
	for _, s := range contenders {
		s.load(b, keys, time.Second) // connected, warm
		s.rates, s.p99s = nil, nil
	}
	for round := 0; b.Loop(); round++ {
		for i := range contenders {
			contenders[(round+i)%len(contenders)].load(b, keys, turn)
		}
	}
	report(b, contenders)
}

const (
	streams = 256
	conns   = 4
)

// contender is a service under load.
type contender struct {
	name    string
	rest    time.Duration // at the end of a turn
	clients []ratelimit.RateLimitServiceClient
	rates   []float64
	p99s    []time.Duration
}

// newProcess starts a program as a service on loopback. PORT in its arguments and environment is
// its port.
func newProcess(b *testing.B, name string, env []string, program string, args ...string) *contender {
	l, port := listen(b)
	require.NoError(b, l.Close())
	with := func(texts []string) (all []string) {
		for _, text := range texts {
			all = append(all, strings.ReplaceAll(text, "PORT", strconv.Itoa(port)))
		}
		return all
	}
	cmd := exec.Command(program, with(args)...)
	cmd.Env = append(os.Environ(), with(env)...)
	var log bytes.Buffer
	cmd.Stderr = &log
	_, err := cmd.StdinPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if b.Failed() {
			b.Logf("%s says:\n%s", name, log.String())
		}
	})
	s := &contender{name: name}
	for range conns {
		conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", port),
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(b, err)
		b.Cleanup(func() { conn.Close() })
		client := ratelimit.NewRateLimitServiceClient(conn)
		s.clients = append(s.clients, client)
		ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
		_, err = client.ShouldRateLimit(ctx, request(0), grpc.WaitForReady(true))
		cancel()
		require.NoError(b, err, "%s does not answer", name)
	}
	return s
}

func request(key int) *ratelimit.RateLimitRequest {
	return &ratelimit.RateLimitRequest{Domain: "bench", Descriptors: []*common.RateLimitDescriptor{
		{Entries: []*common.RateLimitDescriptor_Entry{{Key: "user", Value: strconv.Itoa(key)}}},
	}}
}

// load sends requests for a time, on all streams, and records the replies per second and the 99th
// percentile of their delays.
func (s *contender) load(b *testing.B, keys int, d time.Duration) {
	took := make([][]time.Duration, streams)
	end := time.Now().Add(d)
	var all sync.WaitGroup
	for i := range streams {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			client := s.clients[i%len(s.clients)]
			for now := time.Now(); now.Before(end); {
				answer, err := client.ShouldRateLimit(b.Context(), request(random.IntN(keys)))
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
	time.Sleep(s.rest)
}

// report reports each contender's medians, and its ratios and 99th percentiles relative to the
// first one in the same round.
func report(b *testing.B, contenders []*contender) {
	first := contenders[0]
	for _, s := range contenders {
		b.ReportMetric(median(s.rates), s.name+"/s")
		b.ReportMetric(float64(median(s.p99s).Microseconds()), s.name+"-p99-us")
		if s == first {
			continue
		}
		var ratios []float64
		var behind []time.Duration
		for i := range s.rates {
			ratios = append(ratios, s.rates[i]/first.rates[i])
			behind = append(behind, s.p99s[i]-first.p99s[i])
		}
		b.ReportMetric(median(ratios), s.name+"-ratio")
		b.ReportMetric(float64(median(behind).Microseconds()), s.name+"-p99-behind-us")
	}
}

func median[T float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

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
