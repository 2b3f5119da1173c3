// Command soak runs a mixed load on a Redis Cluster for hours, with planned failovers, and draws the
// memory, the goroutines and the latency of this process. Run it in the root of the repository:
//
//	go run ./integration/tools/soak                           two hours, drawn in docs/soak.svg
//	go run ./integration/tools/soak -for 2m -failover 30s -out /tmp/soak.svg
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

func main() {
	log.SetFlags(log.Ltime)
	var s soak
	flag.DurationVar(&s.length, "for", 2*time.Hour, "how long the load runs")
	flag.DurationVar(&s.failover, "failover", 10*time.Minute, "the time between failovers")
	flag.DurationVar(&s.period, "period", 10*time.Second, "the time between samples")
	flag.IntVar(&s.names, "names", 1_000_000, "limiters of keys")
	out := flag.String("out", "docs/soak.svg", "the plot")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := s.run(ctx)
	stop()
	if err == nil {
		err = draw(*out, s.samples, s.failovers)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// soak is one run.
type soak struct {
	length, failover, period time.Duration
	names                    int
	samples                  []sample
	failovers                []time.Duration // since the start
}

func (s *soak) run(ctx context.Context) (err error) {
	cluster, err := servers.OpenCluster(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: cluster.Addrs()})
	if err != nil {
		return err
	}
	defer redis.Close()

	ctx, cancel := context.WithTimeout(ctx, s.length)
	defer cancel()
	plain, leasing := rratelimiter.New(redis), rratelimiter.New(redis, rratelimiter.WithPrefetch(100*time.Millisecond))
	all, err := loads(ctx, plain, leasing, s.names)
	if err != nil {
		return err
	}
	var callers sync.WaitGroup
	for _, l := range all {
		for range l.callers {
			callers.Go(func() { l.run(ctx) })
		}
	}
	begin, lastFailover := time.Now(), time.Now()
	ticks := time.NewTicker(s.period)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			callers.Wait()
			log.Printf("%d failovers", len(s.failovers))
			for _, l := range all {
				for text, n := range l.errors {
					log.Printf("%s: %d x %s", l.name, n, text)
				}
			}
			return leasing.Flush(context.WithoutCancel(ctx))
		case <-ticks.C:
		}
		if time.Since(lastFailover) >= s.failover {
			lastFailover = time.Now()
			if err := failOver(ctx, cluster); err != nil {
				log.Printf("failover: %v", err)
			} else {
				s.failovers = append(s.failovers, time.Since(begin))
			}
		}
		sample, err := take(ctx, time.Since(begin), all, cluster)
		if err != nil {
			log.Printf("sample: %v", err)
			continue
		}
		s.samples = append(s.samples, sample)
		log.Print(sample)
	}
}

// failOver makes the replica of the waiting callers' limiter its master.
func failOver(ctx context.Context, cluster *servers.Cluster) error {
	slot, err := cluster.SlotOf(ctx, waitingName)
	if err != nil {
		return err
	}
	replica, err := cluster.ReplicaOf(ctx, slot)
	if err != nil {
		return fmt.Errorf("soak: %w", err)
	}
	_, err = replica.Do(ctx, "CLUSTER", "FAILOVER")
	return err
}
