package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

const redissonVersion = "4.7.0"

// bench has the servers that all measurements share: one Redis, the slow link to it, and one JVM.
type bench struct {
	redis  *servers.Server
	server *server
	link   *child
	rounds int
	warmup time.Duration
	length time.Duration // of the measurement after the warm-up

	redisson *oracle.Redisson
	script   *acquireScript
	warm     map[string]bool // the ways of calling for which the JVM has compiled its code
	pings    []float64       // seconds over the link

	crowdsSeen int // so that no crowd meets the limiter of another one
}

func openBench(ctx context.Context) (*bench, error) {
	redis, err := servers.OpenSingle(ctx)
	if err != nil {
		return nil, err
	}
	b := &bench{redis: redis, warm: make(map[string]bool)}
	client, err := dialPatiently(redis.Addr())
	if err == nil {
		b.server = &server{client}
		b.link, err = openLink(redis.Addr())
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bench) close() error {
	if b.redisson != nil {
		b.redisson.Close()
	}
	if b.server != nil {
		b.server.redis.Close()
	}
	var err error
	if b.link != nil {
		err = b.link.close()
	}
	return errors.Join(err, b.redis.Close())
}

// jvm starts Redisson when it is first needed.
func (b *bench) jvm(ctx context.Context) (*oracle.Redisson, error) {
	var err error
	if b.redisson == nil {
		b.redisson, err = oracle.Open(ctx, redissonVersion, oracle.Single(b.redis.Addr()), oracle.WithDefaultPools())
	}
	return b.redisson, err
}

func (b *bench) redissonScript(ctx context.Context) (*acquireScript, error) {
	if b.script == nil {
		redisson, err := b.jvm(ctx)
		if err != nil {
			return nil, err
		}
		if b.script, err = captureScript(ctx, redisson, b.redis.Addr()); err != nil {
			return nil, err
		}
	}
	return b.script, nil
}

// figures are the results of one run of a contender, or why it is not reported.
type figures struct {
	refused        string
	rate           float64 // decisions per second
	p50, p99, p999 time.Duration
	serverCPU      float64 // microseconds per decision, as clientCPU
	clientCPU      float64
	allocs         float64 // per decision; negative if unknown
	bytes          float64 // per decision, both ways
	requests       float64 // per decision
	share          float64 // of decisions that granted
}

// measure runs a load against a contender, once.
func (b *bench) measure(ctx context.Context, s contender, l load) (figures, error) {
	if _, err := b.redissonScript(ctx); s.key == "script" && err != nil {
		return figures{}, err
	}
	if err := b.server.clear(ctx); err != nil {
		return figures{}, err
	}
	session, err := s.open(context.WithoutCancel(ctx), b, l)
	if session != nil {
		defer session.close()
	}
	if err != nil {
		return figures{}, fmt.Errorf("%s: %w", s.title, err)
	}
	var prepared int64
	if l.expect == allDenied && s.key != "empty" {
		if prepared, err = exhaust(ctx, session, l); err != nil {
			return figures{}, fmt.Errorf("%s: %w", s.title, err)
		}
	}
	runtime.GC()

	var before, after usage
	began := func() (err error) { before, err = b.server.usage(ctx); return err }
	ended := func() (err error) { after, err = b.server.usage(ctx); return err }
	warmup := max(b.warmup, l.warmup)
	var t tally
	if session.run == nil {
		t, err = drive(ctx, session, l, warmup, b.length, began, ended)
	} else {
		t, err = session.run(ctx, warmup, b.length, began, ended)
	}
	if err != nil {
		return figures{}, fmt.Errorf("%s: %w", s.title, err)
	}
	if session.settle != nil {
		if err := session.settle(ctx); err != nil {
			return figures{}, fmt.Errorf("%s: %w", s.title, err)
		}
	}
	t.allPermits += prepared
	return b.check(ctx, s, l, t, before, after)
}

// check makes figures of a run whose preconditions held.
func (b *bench) check(ctx context.Context, s contender, l load, t tally, before, after usage) (figures, error) {
	if t.decisions < int64(l.callers) {
		return figures{refused: fmt.Sprintf("%d decisions, too few", t.decisions)}, nil
	}
	n := float64(t.decisions)
	f := figures{
		rate:      n / t.elapsed.Seconds(),
		p50:       t.latency.quantile(0.50),
		p99:       t.latency.quantile(0.99),
		p999:      t.latency.quantile(0.999),
		serverCPU: float64((after.cpu - before.cpu).Nanoseconds()) / 1e3 / n,
		clientCPU: float64(t.clientCPU.Nanoseconds()) / 1e3 / n,
		allocs:    t.allocs / n,
		bytes:     (after.bytes - before.bytes) / n,
		requests:  requests(before, after, s.commands) / n,
		share:     float64(t.granted) / n,
	}
	const tolerated = 0.001
	switch {
	case t.failed > 0:
		f.refused = fmt.Sprintf("%.2g%% errors", 100*float64(t.failed)/n)
		if t.failed == t.decisions || float64(t.failed)/n < tolerated {
			f.refused += ": " + t.err.Error()
		}
	case l.expect == allGranted && t.granted != t.decisions:
		f.refused = fmt.Sprintf("%.2g%% denied", 100*(1-f.share))
	case l.expect == allDenied && f.share > tolerated:
		f.refused = fmt.Sprintf("%.2g%% granted", 100*f.share)
	case s.isRRateLimiter() && !s.inOtherProcess():
		if err := b.server.account(ctx, l.names, l.limit, t.allPermits); err != nil {
			f.refused = err.Error()
		}
	}
	return f, nil
}
