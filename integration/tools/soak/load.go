package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
	"github.com/rratelimiter/rratelimiter/rules"
)

const (
	leasedName  = "soak:leased"
	waitingName = "soak:waiting"
	keysPrefix  = "soak:keys"
)

// load is callers that make one kind of call, each with a pause between two calls.
type load struct {
	name    string
	callers int
	pause   time.Duration
	call    func(ctx context.Context) error

	mu        sync.Mutex
	latencies []time.Duration  // since the last sample
	errors    map[string]int64 // how often each was returned
}

// loads returns callers of a leased limiter, waiting callers, callers of many keys, and requests
// through rules whose file changes.
func loads(ctx context.Context, plain, leasing *rratelimiter.Client, names int) ([]*load, error) {
	leased, waiting := leasing.Limiter(leasedName), plain.Limiter(waitingName)
	keys := limit.NewKeyed(plain, keysPrefix, limit.TokenBucket{Capacity: 10, Refill: 10, Interval: time.Minute})
	handler, err := reloading(ctx, plain)
	err = errors.Join(err,
		leased.SetRate(ctx, rratelimiter.Rate{Permits: 20_000, Interval: 10 * time.Second}),
		waiting.SetRate(ctx, rratelimiter.Rate{Permits: 1000, Interval: 10 * time.Second}))
	return []*load{
		{name: "prefetched", callers: 16, pause: 10 * time.Millisecond, call: func(ctx context.Context) error {
			_, err := leased.TryAcquire(ctx, 1)
			return err
		}},
		{name: "waiting", callers: 16, pause: 20 * time.Millisecond, call: func(ctx context.Context) error {
			_, err := waiting.TryAcquireWithin(ctx, 1, 200*time.Millisecond)
			return err
		}},
		{name: "keys", callers: 16, pause: 20 * time.Millisecond, call: func(ctx context.Context) error {
			_, err := keys.TryAcquire(ctx, fmt.Sprintf("user-%d", rand.IntN(names)), 1)
			return err
		}},
		{name: "rules", callers: 8, pause: 20 * time.Millisecond, call: func(ctx context.Context) error {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
			if w.Code != http.StatusOK && w.Code != http.StatusTooManyRequests {
				return fmt.Errorf("soak: status %d", w.Code)
			}
			return nil
		}},
	}, err
}

// run makes calls until the context ends. The last ones still have their time.
func (l *load) run(ctx context.Context) {
	for ctx.Err() == nil {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		began := time.Now()
		err := l.call(call)
		cancel()
		took := time.Since(began)
		l.mu.Lock()
		l.latencies = append(l.latencies, took)
		if err != nil {
			if l.errors == nil {
				l.errors = make(map[string]int64)
			}
			l.errors[err.Error()]++
		}
		l.mu.Unlock()
		time.Sleep(l.pause)
	}
}

// percentile99 returns the latency of 99 % of the calls since the last one, and forgets them.
func (l *load) percentile99() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.latencies) == 0 {
		return 0
	}
	slices.Sort(l.latencies)
	p99 := l.latencies[len(l.latencies)*99/100]
	l.latencies = l.latencies[:0]
	return p99
}

// reloading returns a handler behind rules whose file changes every ten seconds.
func reloading(ctx context.Context, client *rratelimiter.Client) (http.Handler, error) {
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "rules.yaml")
	write := func(permits int) error {
		const one = "domain: soak\nrules: [{name: all, key: method, policy: sliding_window, limits: [%d/10s]}]\n"
		return os.WriteFile(path, fmt.Appendf(nil, one, permits), 0o600)
	}
	if err := write(1000); err != nil {
		return nil, err
	}
	set, err := rules.Watch(ctx, path)
	if err != nil {
		return nil, err
	}
	go func() {
		defer func() { _ = os.RemoveAll(dir) }()
		for i := 0; ctx.Err() == nil; i++ {
			time.Sleep(10 * time.Second)
			_ = write(1000 + i%100)
		}
	}()
	return set.Middleware(client)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), nil
}
