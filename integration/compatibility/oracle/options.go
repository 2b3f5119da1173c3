package oracle

import (
	"strconv"
	"strings"
	"time"
)

// Target is the Redis that a Redisson connects to. The zero value is no target.
type Target struct{ args []string }

// Single is one server, by its host:port.
func Single(addr string) Target { return Target{args: []string{"--single", addr}} }

// Cluster is a Redis Cluster, by the host:port of some of its nodes. Redisson looks for changes of
// it twice a second.
func Cluster(addrs ...string) Target {
	return Target{args: []string{"--cluster", strings.Join(addrs, ",")}}
}

// Sentinel is a master under sentinels, by its name and the host:port of some of the sentinels.
func Sentinel(master string, addrs ...string) Target {
	return Target{args: []string{"--sentinel", master, strings.Join(addrs, ",")}}
}

// Option sets what is not left to Redisson's defaults.
type Option func(*settings)

// WithTimeout bounds the connecting and each try of a command. Redisson's own default is 3 s for a
// command.
func WithTimeout(d time.Duration) Option {
	return flag("--timeout-millis", strconv.FormatInt(d.Milliseconds(), 10))
}

// WithRetryAttempts sets how often Redisson sends a command again that could not be sent or timed
// out.
func WithRetryAttempts(n int) Option { return flag("--retry-attempts", strconv.Itoa(n)) }

// WithDefaultPools uses the defaults of Redisson for threads and for connections to a single
// server, and all compilers of the JVM, as benchmarks need. Without it there are few threads and
// connections, and the JVM starts faster: a test starts several Redissons on a small machine.
func WithDefaultPools() Option {
	return func(s *settings) {
		s.args = append(s.args, "--default-pools")
		s.jvm = nil
	}
}

func flag(name, value string) Option {
	return func(s *settings) { s.args = append(s.args, name, value) }
}

// settings are the arguments of the JVM and of its program.
type settings struct{ jvm, args []string }
