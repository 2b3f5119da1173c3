package proxies

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

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
