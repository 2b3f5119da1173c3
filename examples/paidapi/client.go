package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/failsafehttp"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/limit"
)

// newClient returns a client of the paid API. All processes that use the same name on the same Redis
// share the quota, and its pauses.
func newClient(client *rratelimiter.Client, name string, pauses bool) *http.Client {
	rate := limit.TokenBucket{Capacity: 5, Refill: 20, Interval: time.Second} // 20 per second, bursts of 5
	policies := []limit.Policy{rate, limit.Pause{Most: time.Hour}}
	if !pauses {
		policies = policies[:1]
	}
	limited := httplimit.Transport(http.DefaultTransport, httplimit.All(limit.New(client, name, policies...)),
		httplimit.OnFailure(limit.Closed), // this provider bans: nothing is sent while Redis is away
		httplimit.Wait(time.Minute),       // longer than pauses usually are
	)
	// Each try takes a permit, and waits for the end of a pause. A try that was not sent is not repeated.
	retries := failsafehttp.NewRetryPolicyBuilder().AbortOnErrors(httplimit.ErrNotSent).WithMaxRetries(2).Build()
	return &http.Client{Transport: failsafehttp.NewRoundTripper(limited, retries), Timeout: 2 * time.Minute}
}

// work calls the API from two goroutines until ctx ends.
func work(ctx context.Context, client *http.Client, url, process string) {
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			for ctx.Err() == nil {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
				if err != nil {
					return
				}
				r.Header.Set(processHeader, process)
				if resp, err := client.Do(r); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}
		})
	}
	both.Wait()
}

// runWorker is a process that works until its standard input ends.
func runWorker(t task) error {
	redis, err := connect(t.Redis)
	if err != nil {
		return err
	}
	defer redis.Close()
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	work(ctx, newClient(rratelimiter.New(redis), t.Name, t.Pauses), t.URL, t.Process)
	return nil
}
