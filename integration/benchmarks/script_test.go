package benchmarks

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	policies "github.com/rratelimiter/rratelimiter/limit"
)

// clock is a time that a benchmark moves.
type clock struct{ now time.Time }

// scriptCase is one case of a lone call. The clock moves by step with each call.
type scriptCase struct {
	name     string
	limit    limit
	step     time.Duration
	before   int // calls that bring the limiter into the state that is measured
	denied   bool
	policies []policies.Policy // in place of a limiter of Redisson's layout
}

var scriptCases = []scriptCase{
	{name: "grant", limit: generous},
	{name: "denial", limit: scarce, before: 10, denied: true},
	// In each call the oldest grant of the window has expired.
	{name: "reclaim", limit: limit{1_000_000, time.Second}, step: time.Millisecond, before: 1000},
	{name: "FixedWindow", limit: generous, policies: []policies.Policy{fixedWindow}},
	{"TokenBucket", generous, time.Millisecond, 0, false, []policies.Policy{tokenBucket}},
	{"SlidingWindow", generous, time.Millisecond, 0, false, []policies.Policy{slidingWindow}},
	{"SlidingLog", generous, time.Millisecond, 0, false, []policies.Policy{slidingLog}},
	{"LeakyBucket", generous, time.Millisecond, 0, false, []policies.Policy{leakyBucket}},
	{"Smooth", generous, time.Millisecond, 0, false, []policies.Policy{smooth}},
	{"FixedWindow+TokenBucket", generous, time.Millisecond, 0, false, []policies.Policy{fixedWindow, tokenBucket}},
}

const scriptCalls = 50 // of a chunk

// BenchmarkServerTime measures the server's time of one EVALSHA, as Redis counts it, beside that of
// Redisson's script. Both take turns of a few calls, and a ratio is of two turns a few milliseconds
// apart. The speed of a processor that others use as well changes within seconds.
func BenchmarkServerTime(b *testing.B) {
	for _, c := range scriptCases {
		b.Run("call="+c.name, func(b *testing.B) {
			redis := shared(b)
			redis.clear(b)
			calls := []func() bool{c.prepared(b, redis, "ours", true), c.prepared(b, redis, "theirs", false)}
			var took [2][]float64
			var ratios []float64
			for b.Loop() {
				var turn [2]float64
				for i := range turn {
					who := (i + len(ratios)) % 2 // the first one alternates
					turn[who] = c.chunk(b, redis, calls[who])
					took[who] = append(took[who], turn[who])
				}
				ratios = append(ratios, turn[0]/turn[1])
			}
			// Medians, since a mean would include the times in which the server has no processor.
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(took[0]), "server-ns")
			b.ReportMetric(median(took[1]), "script-server-ns")
			b.ReportMetric(median(ratios), "x-script")
		})
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// prepared opens one of both in the state that is measured.
func (c scriptCase) prepared(b testing.TB, redis *server, name string, isOurs bool) func() bool {
	now := &clock{time.Now()}
	acquire := c.open(b, redis, name, now, isOurs)
	next := func() bool {
		now.now = now.now.Add(c.step)
		return acquire()
	}
	for range c.before {
		require.True(b, next(), "a preparing call was denied")
	}
	next() // the first call may have to send the script's text
	return next
}

// chunk returns the server's mean time of a few calls, in nanoseconds. A count of the grants in the
// background adds calls, and its time counts.
func (c scriptCase) chunk(b testing.TB, redis *server, next func() bool) float64 {
	before := redis.usage(b)
	for range scriptCalls {
		require.Equal(b, !c.denied, next())
	}
	used := redis.usage(b).minus(before)
	require.GreaterOrEqual(b, used.scripts, float64(scriptCalls))
	return float64(used.scriptTime) / scriptCalls
}

// open opens this library or Redisson's script with its limiter set and its clock injected.
func (c scriptCase) open(b testing.TB, server *server, name string, now *clock, isOurs bool) (acquire func() bool) {
	ctx, redis := context.Background(), dialWith(b, patient(server.addr))
	setRates(b, redis, load{names: []string{name}, limit: c.limit})
	client := rratelimiter.New(redis, rratelimiter.WithClock(func() time.Time { return now.now }))
	take := client.Limiter(name).TryAcquire
	if isOurs && c.policies != nil {
		take = policies.New(client, name, c.policies...).TryAcquire
	}
	if !isOurs {
		captured := redissonScript(b)
		keys := captured.keysOf(name)
		take = func(ctx context.Context, permits int64) (bool, error) {
			granted, _, err := captured.take(ctx, redis, keys, permits, now.now)
			return granted, err
		}
	}
	return func() bool {
		granted, err := take(ctx, 1)
		require.NoError(b, err)
		return granted
	}
}

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
