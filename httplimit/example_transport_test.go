package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Two calls an hour to each host, for all programs together.
func ExampleTransport() {
	client := connect()
	server := httptest.NewServer(hello)
	defer server.Close()

	perHost := httplimit.Each(client, "calls", func(r *http.Request) (string, error) { return r.URL.Host, nil },
		limit.FixedWindow{Permits: 2, Interval: time.Hour})
	api := &http.Client{Transport: httplimit.Transport(nil, perHost, unhurried)}
	for range 3 {
		ctx, cancel := context.WithTimeout(noContext, time.Minute)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			panic(err)
		}
		resp, err := api.Do(r)
		if err != nil { // at once: there is no permit within the minute that the context lasts
			fmt.Println(errors.Is(err, httplimit.ErrNotSent), errors.Is(err, context.DeadlineExceeded))
			continue
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	// Output:
	// 200 OK
	// 200 OK
	// true true
}
