package outages

import (
	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// Target is the Redis of a Load.
type Target struct {
	Redis    rueidis.ClientOption
	Redisson oracle.Target
}

// OnSingle returns a single server.
func OnSingle(s *servers.Server) Target {
	return Target{
		Redis:    rueidis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true},
		Redisson: oracle.Single(s.Addr()),
	}
}

// OnCluster returns a Redis Cluster.
func OnCluster(c *servers.Cluster) Target {
	return Target{
		Redis:    rueidis.ClientOption{InitAddress: c.Addrs()},
		Redisson: oracle.Cluster(c.Addrs()...),
	}
}

// OnSentinel returns a master under sentinels.
func OnSentinel(s *servers.Sentinel) Target {
	return Target{
		Redis: rueidis.ClientOption{
			InitAddress: s.Addrs(),
			Sentinel:    rueidis.SentinelOption{MasterSet: s.MasterName()},
		},
		Redisson: oracle.Sentinel(s.MasterName(), s.Addrs()...),
	}
}
