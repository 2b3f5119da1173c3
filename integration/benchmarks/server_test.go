package benchmarks

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

const redissonVersion = "4.7.0"

// server is the Redis of all libraries, a single one or a cluster.
type server struct {
	addr  string
	redis rueidis.Client
}

// patient dials with an option for calls that block the server for seconds.
func patient(addr string) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{addr}, ConnWriteTimeout: time.Minute}
}

func newServer(b testing.TB, addr string) *server {
	redis, err := rueidis.NewClient(patient(addr))
	require.NoError(b, err)
	return &server{addr, redis}
}

// What all benchmarks share, from its first use to the end of the process.
var (
	mu       sync.Mutex
	single   *server
	cluster  *server
	java     *oracle.Redisson
	captured *acquireScript
	closers  []func()
)

// once opens what is shared when it is first needed.
func once[T any](b testing.TB, place **T, open func(ctx context.Context) (*T, func())) *T {
	mu.Lock()
	defer mu.Unlock()
	if *place == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		opened, closeIt := open(ctx)
		*place, closers = opened, append(closers, closeIt)
	}
	return *place
}

func shared(b testing.TB) *server {
	return once(b, &single, func(ctx context.Context) (*server, func()) {
		process, err := servers.OpenSingle(ctx)
		require.NoError(b, err)
		return newServer(b, process.Addr()), func() { _ = process.Close() }
	})
}

func sharedCluster(b testing.TB) *server {
	return once(b, &cluster, func(ctx context.Context) (*server, func()) {
		nodes, err := servers.OpenCluster(ctx)
		require.NoError(b, err)
		return newServer(b, nodes.Addrs()[0]), func() { _ = nodes.Close() }
	})
}

func redisson(b testing.TB) *oracle.Redisson {
	addr := shared(b).addr
	return once(b, &java, func(ctx context.Context) (*oracle.Redisson, func()) {
		opened, err := oracle.Open(ctx, redissonVersion, oracle.Single(addr), oracle.WithDefaultPools())
		require.NoError(b, err)
		return opened, opened.Close
	})
}

// machine is what describes a run beside what Go prints.
var machine = [][]string{
	{"redis", "redis-server", "--version"},
	{"java", "java", "-version"},
	{"peers", "go", "list", "-m", "-f", "{{.Path}} {{.Version}}", "github.com/redis/rueidis",
		"github.com/redis/rueidis/rueidislimiter", "github.com/redis/go-redis/v9", "github.com/go-redis/redis_rate/v10",
		"github.com/ulule/limiter/v3", "github.com/sethvargo/go-redisstore", "github.com/throttled/throttled/v2"},
}

// TestMain describes a run in lines that benchstat reads, and ends what the benchmarks shared.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() != "" {
		fmt.Println("redisson:", redissonVersion)
		for _, of := range machine {
			output, _ := exec.Command(of[1], of[2:]...).CombinedOutput() // nothing to describe is no failure
			fmt.Println(of[0]+":", strings.ReplaceAll(strings.TrimSpace(string(output)), "\n", ", "))
		}
	}
	code := m.Run()
	for _, closeIt := range closers {
		closeIt()
	}
	os.Exit(code)
}

// usage is what a server has counted.
type usage struct {
	cpu        time.Duration
	scripts    float64       // calls of a script
	scriptTime time.Duration // of EVALSHA
}

func (u usage) minus(earlier usage) usage {
	return usage{u.cpu - earlier.cpu, u.scripts - earlier.scripts, u.scriptTime - earlier.scriptTime}
}

func (u usage) plus(other usage) usage {
	return usage{u.cpu + other.cpu, u.scripts + other.scripts, u.scriptTime + other.scriptTime}
}

// usage sums over the nodes.
func (s *server) usage(b testing.TB) (u usage) {
	for _, node := range s.redis.Nodes() {
		text, err := node.Do(context.Background(), node.B().Info().Section("cpu", "commandstats").Build()).ToString()
		require.NoError(b, err)
		fields := make(map[string]string)
		for line := range strings.SplitSeq(text, "\r\n") {
			name, value, _ := strings.Cut(line, ":")
			fields[name] = value
		}
		for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
			u.cpu += time.Duration(number(b, fields[name]) * float64(time.Second))
		}
		for _, name := range []string{"eval", "evalsha"} {
			// calls=7,usec=130,usec_per_call=18.57,...
			parts := strings.FieldsFunc(fields["cmdstat_"+name], func(r rune) bool { return r == ',' || r == '=' })
			if len(parts) >= 4 {
				u.scripts += number(b, parts[1])
				u.scriptTime += time.Duration(number(b, parts[3]) * float64(time.Microsecond))
			}
		}
	}
	return u
}

func number(b testing.TB, text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	require.NoError(b, err)
	return n
}

// clear empties the server, so that no library meets the state of another one: its keys, and garbage
// in the memory of Lua. A script that has read a million members leaves garbage that later scripts
// have to collect.
func (s *server) clear(b testing.TB) {
	for _, node := range s.redis.Nodes() {
		for _, command := range [][]string{{"FLUSHALL", "SYNC"}, {"SCRIPT", "FLUSH"}} {
			err := node.Do(context.Background(), node.B().Arbitrary(command...).Build()).Error()
			if err != nil && !strings.Contains(err.Error(), "READONLY") { // a replica
				require.NoError(b, err)
			}
		}
	}
}

// do runs a command and returns its reply.
func (s *server) do(b testing.TB, args ...string) rueidis.RedisMessage {
	reply, err := s.redis.Do(context.Background(), s.redis.B().Arbitrary(args...).Build()).ToMessage()
	require.NoError(b, err)
	return reply
}

// setRates configures the limiters that this library and Redisson understand.
func setRates(b testing.TB, redis rueidis.Client, l load) {
	commands := make(rueidis.Commands, len(l.names))
	for i, name := range l.names {
		commands[i] = redis.B().Hset().Key(name).FieldValue().
			FieldValue("rate", strconv.FormatInt(l.limit.permits, 10)).
			FieldValue("interval", strconv.FormatInt(l.limit.interval.Milliseconds(), 10)).
			FieldValue("type", "0").FieldValue("keepAliveTime", "0").Build()
	}
	for _, result := range redis.DoMulti(context.Background(), commands...) {
		require.NoError(b, result.Error())
	}
}

// account returns how the grants in Redis differ from the answers of the callers, if the whole run
// is in one window.
func (s *server) account(b testing.TB, l load, granted int64) string {
	var recorded int64
	for _, name := range l.names {
		taken, free := s.state(b, name)
		switch {
		case taken > l.limit.permits:
			return fmt.Sprintf("%d permits of %s are in one window, its rate is %d", taken, name, l.limit.permits)
		case free >= 0 && taken+free != l.limit.permits:
			return fmt.Sprintf("%d permits of %s are taken and %d free, its rate is %d", taken, name, free, l.limit.permits)
		}
		recorded += taken
	}
	if recorded != granted {
		return fmt.Sprintf("callers were granted %d permits, Redis has %d", granted, recorded)
	}
	return ""
}

// state reads the permits that are taken, and the free ones, or -1 if none was ever taken.
func (s *server) state(b testing.TB, name string) (taken, free int64) {
	ctx := context.Background()
	free, err := s.redis.Do(ctx, s.redis.B().Get().Key("{"+name+"}:value").Build()).AsInt64()
	if rueidis.IsRedisNil(err) {
		free, err = -1, nil
	}
	require.NoError(b, err)
	const page = 50_000
	for from := int64(0); ; from += page {
		members, err := s.redis.Do(ctx, s.redis.B().Zrange().Key("{"+name+"}:permits").
			Min(strconv.FormatInt(from, 10)).Max(strconv.FormatInt(from+page-1, 10)).Build()).AsStrSlice()
		require.NoError(b, err)
		for _, m := range members {
			require.GreaterOrEqual(b, len(m), 4, "the permits are the last four bytes of a member")
			n := m[len(m)-4:]
			taken += int64(n[0]) | int64(n[1])<<8 | int64(n[2])<<16 | int64(n[3])<<24
		}
		if len(members) < page {
			return taken, free
		}
	}
}

// preparedGrant is a grant that is written to Redis in Redisson's layout.
type preparedGrant struct {
	at      time.Time
	permits uint32
}

// prepare writes the state of a limiter.
func (s *server) prepare(b testing.TB, name string, free int64, grants []preparedGrant) {
	s.do(b, "SET", "{"+name+"}:value", strconv.FormatInt(free, 10))
	const page = 500
	serial := 0
	for chunk := range slices.Chunk(grants, page) {
		add := []string{"ZADD", "{" + name + "}:permits"}
		for _, g := range chunk {
			serial++
			member := fmt.Appendf(nil, "\x10%016d", serial)
			member = append(member, byte(g.permits), byte(g.permits>>8), byte(g.permits>>16), byte(g.permits>>24))
			add = append(add, strconv.FormatInt(g.at.UnixMilli(), 10), string(member))
		}
		s.do(b, add...)
	}
}
