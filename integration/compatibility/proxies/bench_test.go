package proxies

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/rules/rls"
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
	redis, file := benchRedis(b)
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
			contenders[3].ends = func(context.Context) error {
				time.Sleep(1100 * time.Millisecond) // until its prefetches have ended
				return nil
			}
			inTurns(b, contenders, keys)
		})
	}
}

// BenchmarkHandler is the same without gRPC, in this process.
func BenchmarkHandler(b *testing.B) {
	redis, file := benchRedis(b)
	open := func(options ...rratelimiter.Option) *rratelimiter.Client {
		return rratelimiter.New(connected(b, redis), options...)
	}
	handler := func(name string, service ratelimit.RateLimitServiceServer) *contender {
		return &contender{name: name, calls: []call{service.ShouldRateLimit}}
	}
	service := func(client *rratelimiter.Client) *rls.Server {
		s, err := rls.New(rls.Config{Client: client, Path: file, Log: slog.New(slog.DiscardHandler),
			Deadline: 10 * time.Second})
		require.NoError(b, err)
		return s
	}
	prefetching := open(rratelimiter.WithPrefetch(time.Second))
	for _, keys := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			contenders := []*contender{
				handler("theirs", &counting{redis: connected(b, redis)}), handler("plain", service(open())),
				handler("prefetching", service(prefetching)),
			}
			contenders[2].ends = prefetching.Flush
			inTurns(b, contenders, keys)
		})
	}
}

// benchRedis returns a Redis and a file with a limit that is never reached.
func benchRedis(b *testing.B) (address, file string) {
	file = filepath.Join(b.TempDir(), "bench.yaml")
	require.NoError(b, os.WriteFile(file, []byte(benchRules), 0o600))
	return servers.Single(b).Addr(), file
}

func connected(b *testing.B, redis string) rueidis.Client {
	return servers.Connect(b, rueidis.ClientOption{InitAddress: []string{redis}, DisableCache: true})
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
