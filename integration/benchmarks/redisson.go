package main

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
)

// jvmWarmup is how long the JVM runs a way of calling before it is measured for the first time.
const jvmWarmup = 10 * time.Second

// openRedisson measures the real client: its callers are threads of the JVM, or for async so many
// calls in flight.
func openRedisson(mode string) opener {
	return func(ctx context.Context, b *bench, l load) (*session, error) {
		redisson, err := b.jvm(ctx)
		if err != nil {
			return nil, err
		}
		if err := setRates(ctx, b.server.redis, l); err != nil {
			return nil, err
		}
		run := func(ctx context.Context, warmup, d time.Duration, began, ended func() error) (tally, error) {
			running, err := redisson.Limiter(namePrefix).StartBench(ctx, oracle.Bench{
				Limiters: len(l.names), Callers: l.callers, Async: mode == "async", Permits: 1,
			})
			if err != nil {
				return tally{}, err
			}
			time.Sleep(warmup)
			err = began()
			err = errors.Join(err, running.Count(ctx, d), ended())
			got, stopErr := running.Stop(ctx)
			t := tally{
				decisions: got.Decisions, granted: got.Granted, failed: got.Failed, err: got.Err,
				elapsed: got.Elapsed, clientCPU: got.CPU, allocs: -1, allPermits: got.AllGranted,
			}
			copy(t.latency[:], got.Latencies)
			return t, errors.Join(err, stopErr)
		}
		if !b.warm[mode] {
			nothing := func() error { return nil }
			if _, err := run(ctx, min(jvmWarmup, 10*b.length), 0, nothing, nothing); err != nil {
				return nil, err
			}
			b.warm[mode] = true
		}
		return &session{
			take: func(ctx context.Context, _, name int, permits int64) (bool, error) {
				return redisson.Limiter(l.names[name]).TryAcquire(ctx, permits)
			},
			run:   run,
			close: func() {},
		}, nil
	}
}

// javaVersion returns the version that the java command reports.
func javaVersion() string {
	output, err := exec.Command("java", "-version").CombinedOutput()
	if err != nil {
		return "an unknown JVM"
	}
	line, _, _ := strings.Cut(string(output), "\n")
	return strings.ReplaceAll(line, `"`, "")
}
