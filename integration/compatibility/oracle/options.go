package oracle

import (
	"maps"
	"time"
)

// Target is the Redis of a Redisson. The zero value is invalid.
type Target struct {
	kind    string // of Redisson's configuration
	servers map[string]any
}

// Single is one server, by its host:port.
func Single(addr string) Target {
	return Target{"singleServerConfig", map[string]any{"address": "redis://" + addr}}
}

// Cluster is a Redis Cluster, by the host:port of some nodes. Redisson looks for changes twice a
// second.
func Cluster(addrs ...string) Target {
	return Target{"clusterServersConfig", map[string]any{"nodeAddresses": urls(addrs), "scanInterval": 500}}
}

// Sentinel is a master under sentinels, by its name and the host:port of some of the sentinels.
func Sentinel(master string, addrs ...string) Target {
	return Target{"sentinelServersConfig",
		map[string]any{"masterName": master, "sentinelAddresses": urls(addrs), "scanInterval": 500}}
}

func urls(addrs []string) (all []string) {
	for _, addr := range addrs {
		all = append(all, "redis://"+addr)
	}
	return all
}

// Option changes a default of Redisson.
type Option func(*settings)

// WithTimeout bounds the connect and each try of a command. Redisson's default is 3 s for a
// command.
func WithTimeout(d time.Duration) Option {
	return func(s *settings) {
		s.servers["timeout"], s.servers["connectTimeout"] = d.Milliseconds(), d.Milliseconds()
	}
}

// WithRetryAttempts sets how often Redisson sends a command again that failed or timed out.
func WithRetryAttempts(n int) Option {
	return func(s *settings) { s.servers["retryAttempts"] = n }
}

// WithDefaultPools uses the defaults of Redisson for threads and connections, and all compilers of
// the JVM, as benchmarks need. Without it, a JVM starts faster and has few threads.
func WithDefaultPools() Option {
	return func(s *settings) { s.jvm, s.defaultPools = nil, true }
}

// settings are the flags of the JVM and a configuration of Redisson.
type settings struct {
	jvm          []string
	servers      map[string]any
	defaultPools bool
}

// config returns the configuration of an instance, in Redisson's form.
func (t Target) config(opts []Option) (config map[string]any, jvm []string) {
	s := settings{jvm: []string{"-XX:TieredStopAtLevel=1"}, servers: maps.Clone(t.servers)}
	for _, opt := range opts {
		opt(&s)
	}
	config = map[string]any{t.kind: s.servers}
	prefixes := []string{"connection"}
	if t.kind != "singleServerConfig" {
		// Redisson reads from replicas by default: a test that reads what it has just written would be a race.
		s.servers["readMode"] = "MASTER"
		prefixes = []string{"masterConnection", "slaveConnection"}
	}
	if !s.defaultPools {
		config["threads"], config["nettyThreads"] = 4, 4
		for _, prefix := range append(prefixes, "subscriptionConnection") {
			s.servers[prefix+"MinimumIdleSize"], s.servers[prefix+"PoolSize"] = 1, 32
		}
	}
	return config, s.jvm
}
