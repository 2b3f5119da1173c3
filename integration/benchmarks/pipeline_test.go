package benchmarks

import (
	"context"
	"slices"
	"testing"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	policies "github.com/rratelimiter/rratelimiter/limit"
)

// pipelined is the number of calls in a pipeline of BenchmarkScripts.
const pipelined = 32

// recorder records the last command that a library sends.
type recorder struct {
	rueidis.Client
	last []string
}

func (r *recorder) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	r.last = slices.Clone(command.Commands())
	return r.Client.Do(ctx, command)
}

// BenchmarkScripts measures the scripts alone: the server's time of a call of each library, as Redis counts it, in
// pipelines that repeat the call. They take turns of one pipeline, and a ratio is of turns a few milliseconds apart.
func BenchmarkScripts(b *testing.B) {
	calls := map[string]func(b *testing.B, redis rueidis.Client, l limit) error{
		"TryAcquire": func(_ *testing.B, redis rueidis.Client, l limit) error {
			_, err := policyOf(redis, l).TryAcquire(context.Background(), 1)
			return err
		},
		"Take": func(_ *testing.B, redis rueidis.Client, l limit) error {
			_, err := policyOf(redis, l).Take(context.Background(), 1)
			return err
		},
	}
	for name, ours := range calls {
		for answer, l := range map[string]limit{"granted": generous, "denied": scarce} {
			b.Run("call="+name+"/answer="+answer, func(b *testing.B) {
				redis := shared(b)
				redis.clear(b)
				pipelines := [][][]string{record(b, redis, l, ours), record(b, redis, l, peerCall)}
				var took [2][]float64
				var ratios []float64
				for b.Loop() {
					var turn [2]float64
					for i := range turn {
						who := (i + len(ratios)) % 2 // the first one alternates
						turn[who] = redis.pipeline(b, pipelines[who])
						took[who] = append(took[who], turn[who])
					}
					ratios = append(ratios, turn[0]/turn[1])
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(median(took[0]), "server-ns")
				b.ReportMetric(median(took[1]), "rueidislimiter-server-ns")
				b.ReportMetric(median(ratios), "x-rueidislimiter")
			})
		}
	}
}

func policyOf(redis rueidis.Client, l limit) *policies.Limiter {
	return policies.New(rratelimiter.New(redis), "ours", policies.FixedWindow{Permits: l.permits, Interval: l.interval})
}

func peerCall(b *testing.B, redis rueidis.Client, l limit) error {
	limiter, err := rueidislimiter.NewRateLimiter(rueidislimiter.RateLimiterOption{
		ClientBuilder: func(rueidis.ClientOption) (rueidis.Client, error) { return redis, nil },
		Limit:         int(l.permits), Window: l.interval,
	})
	require.NoError(b, err)
	_, err = limiter.AllowN(context.Background(), "theirs", 1)
	return err
}

// record makes a call until the limit is reached, if that is soon, and returns a pipeline of it.
func record(b *testing.B, redis *server, l limit, call func(*testing.B, rueidis.Client, limit) error) [][]string {
	r := &recorder{Client: dialWith(b, patient(redis.addr))}
	for range scarce.permits + 2 { // the first call may have to send the script's text
		require.NoError(b, call(b, r, l))
	}
	require.Equal(b, "EVALSHA", r.last[0])
	return slices.Repeat([][]string{r.last}, pipelined)
}

// pipeline returns the server's mean time of the calls of a pipeline, in nanoseconds.
func (s *server) pipeline(b testing.TB, calls [][]string) float64 {
	commands := make(rueidis.Commands, len(calls))
	for i, c := range calls {
		commands[i] = s.redis.B().Arbitrary(c[0]).Args(c[1:]...).Build()
	}
	before := s.usage(b)
	for _, result := range s.redis.DoMulti(context.Background(), commands...) {
		require.NoError(b, result.Error())
	}
	return float64(s.usage(b).minus(before).scriptTime) / float64(len(calls))
}
