package oracle

import (
	"strconv"
	"strings"
	"time"
)

// Target is the Redis of a Redisson. The zero value is invalid.
type Target struct{ args []string }

// Single is one server, by its host:port.
func Single(addr string) Target { return Target{args: []string{"servers=single", "addresses=" + addr}} }

// Cluster is a Redis Cluster, by the host:port of some nodes. Redisson looks for changes twice a
// second.
func Cluster(addrs ...string) Target {
	return Target{args: []string{"servers=cluster", "addresses=" + strings.Join(addrs, ",")}}
}

// Sentinel is a master under sentinels, by its name and the host:port of some of the sentinels.
func Sentinel(master string, addrs ...string) Target {
	return Target{args: []string{"servers=" + master, "addresses=" + strings.Join(addrs, ",")}}
}

// Option changes a default of Redisson.
type Option func(*settings)

// WithTimeout bounds the connect and each try of a command. Redisson's default is 3 s for a
// command.
func WithTimeout(d time.Duration) Option {
	return flag("timeout-millis", strconv.FormatInt(d.Milliseconds(), 10))
}

// WithRetryAttempts sets how often Redisson sends a command again that failed or timed out.
func WithRetryAttempts(n int) Option { return flag("retry-attempts", strconv.Itoa(n)) }

// WithDefaultPools uses the defaults of Redisson for threads and connections, and all compilers of
// the JVM, as benchmarks need. Without it, a JVM starts faster and has few threads.
func WithDefaultPools() Option {
	return func(s *settings) {
		s.args = append(s.args, "default-pools=")
		s.jvm = nil
	}
}

func flag(name, value string) Option {
	return func(s *settings) { s.args = append(s.args, name+"="+value) }
}

// settings are the arguments of the JVM and of its program.
type settings struct{ jvm, args []string }
