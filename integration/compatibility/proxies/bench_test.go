package proxies

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
