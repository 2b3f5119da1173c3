package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	sentinels        = 3
	sentinelReplicas = 2
	sentinelQuorum   = 2
	sentinelMaster   = "mymaster"

	// sentinelDownAfter is in milliseconds. Sentinels ping once a second: with a lower value, a late
	// reply makes them replace a healthy master. It then loses its grants until it notices.
	sentinelDownAfter = 2000
)

// Sentinel is a master with two replicas, watched by three sentinels. Its methods are safe for
// concurrent use.
type Sentinel struct {
	data      []*Server
	sentinels []*Server
}

// NewSentinel starts a master, its replicas and the sentinels for the test. It returns when each
// sentinel knows all of them. args are further arguments of each server with data. The test fails
// if they do not start; they end with the test.
//
// A replica replaces a killed master after about three seconds.
func NewSentinel(t testing.TB, args ...string) *Sentinel {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	s, err := startSentinel(ctx, t.TempDir(), args)
	if err != nil {
		t.Fatalf("servers: %v", err)
	}
	t.Cleanup(func() { closeAndReport(t, append(s.Sentinels(), s.Servers()...)...) })
	return s
}

// Close kills the sentinels and all servers.
func (s *Sentinel) Close() error {
	return errors.Join(closeAll(s.sentinels), closeAll(s.data))
}

// MasterName returns the master's name in the sentinels.
func (s *Sentinel) MasterName() string { return sentinelMaster }

// Addrs returns the addresses of the sentinels.
func (s *Sentinel) Addrs() []string { return addrs(s.sentinels) }

// Sentinels returns the sentinels.
func (s *Sentinel) Sentinels() []*Server { return slices.Clone(s.sentinels) }

// Servers returns the servers with data, in any role, also stopped ones.
func (s *Sentinel) Servers() []*Server { return slices.Clone(s.data) }

// Master returns the master by the view of the first sentinel that replies. After a master has
// died, that is still the old one for a time.
func (s *Sentinel) Master(ctx context.Context) (*Server, error) {
	var errs []error
	for _, sentinel := range s.sentinels {
		message, err := sentinel.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinelMaster)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		addr, err := message.AsStrSlice()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, server := range s.data {
			if len(addr) == 2 && server.Addr() == net.JoinHostPort(addr[0], addr[1]) {
				return server, nil
			}
		}
		errs = append(errs, fmt.Errorf("the sentinel on %s names an unknown master: %v", sentinel.Addr(),
			addr))
	}
	return nil, errors.Join(errs...)
}

// agree returns an error unless all sentinels see the same running master, both replicas in sync and the
// other sentinels.
func (s *Sentinel) agree(ctx context.Context) error {
	var first string
	for _, sentinel := range s.sentinels {
		master, err := watches(ctx, sentinel)
		if err != nil {
			return fmt.Errorf("the sentinel on %s: %w", sentinel.Addr(), err)
		}
		if first == "" {
			first = master
		}
		if master != first {
			return fmt.Errorf("the sentinels' masters are %s and %s", first, master)
		}
	}
	return nil
}

// watches returns the master's address by the view of one sentinel, or an error that names what is
// missing.
func watches(ctx context.Context, sentinel *Server) (master string, err error) {
	message, err := sentinel.Do(ctx, "SENTINEL", "MASTER", sentinelMaster)
	if err != nil {
		return "", err
	}
	seen, err := message.AsStrMap()
	if err != nil {
		return "", err
	}
	if seen["flags"] != "master" || seen["num-other-sentinels"] != fmt.Sprint(sentinels-1) {
		return "", fmt.Errorf("its master is %q, with %s other sentinels", seen["flags"], seen["num-other-sentinels"])
	}
	message, err = sentinel.Do(ctx, "SENTINEL", "REPLICAS", sentinelMaster)
	if err != nil {
		return "", err
	}
	replicas, err := message.ToArray()
	if err != nil {
		return "", err
	}
	if len(replicas) != sentinelReplicas {
		return "", fmt.Errorf("it knows %d replicas", len(replicas))
	}
	for _, replica := range replicas {
		fields, err := replica.AsStrMap()
		if err != nil {
			return "", err
		}
		inSync := fields["flags"] == "slave" && fields["master-link-status"] == "ok" && fields["master-port"] == seen["port"]
		if !inSync {
			return "", fmt.Errorf("the replica on %s is %q, its link is %q", fields["name"], fields["flags"],
				fields["master-link-status"])
		}
	}
	return net.JoinHostPort(seen["ip"], seen["port"]), nil
}

func startSentinel(ctx context.Context, dir string, args []string) (_ *Sentinel, err error) {
	s := &Sentinel{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	quick := append([]string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}, args...)
	master, err := startServer(ctx, dataArgs(quick))
	if err != nil {
		return nil, err
	}
	s.data = []*Server{master}
	replicas, err := startAll(ctx, sentinelReplicas, func(int) []string {
		return append(dataArgs(quick), "--replicaof", host, strconv.Itoa(master.Port()))
	})
	if err != nil {
		return nil, err
	}
	s.data = append(s.data, replicas...)

	// A sentinel writes its state into its configuration file, so each needs its own.
	var lines strings.Builder
	fmt.Fprintf(&lines, "sentinel monitor %s %s %d %d\n", sentinelMaster, host, master.Port(), sentinelQuorum)
	fmt.Fprintf(&lines, "sentinel down-after-milliseconds %s %d\n", sentinelMaster, sentinelDownAfter)
	fmt.Fprintf(&lines, "sentinel failover-timeout %s %d\n", sentinelMaster, 3*sentinelDownAfter)
	config := func(i int) string { return filepath.Join(dir, fmt.Sprintf("sentinel-%d.conf", i)) }
	for i := range sentinels {
		if err := os.WriteFile(config(i), []byte(lines.String()), 0o600); err != nil {
			return nil, err
		}
	}
	s.sentinels, err = startAll(ctx, sentinels, func(i int) []string { return []string{config(i), "--sentinel"} })
	if err != nil {
		return nil, err
	}
	for _, sentinel := range s.sentinels {
		// Older servers reject it: they look at roles every ten seconds, and wait eight before they
		// correct one.
		_, _ = sentinel.Do(ctx, "SENTINEL", "DEBUG", "INFO-PERIOD", "500", "PUBLISH-PERIOD", "500")
	}
	return s, awaitHealthy(ctx, s.agree)
}
