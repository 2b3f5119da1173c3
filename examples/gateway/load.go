package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const loadUsage = `gateway load sends requests at a steady rate, without waiting for responses, and reports the results.

	gateway load [flags] [URL]   by default to http://localhost:8080/

Each client sends an X-Forwarded-For header with an address of its own: 198.51.100.1 and so on. A gateway honours it
only from trusted peers: with -trust 127.0.0.1/32,::1/128 it sees all clients, otherwise a single one.

`

// load is a number of requests at a steady rate.
type load struct {
	url      string
	clients  int
	rate     float64 // requests per second of all clients together
	duration time.Duration
}

func runLoad(ctx context.Context, args []string, out io.Writer) error {
	l := load{url: "http://localhost:8080/"}
	f := flag.NewFlagSet("gateway load", flag.ContinueOnError)
	f.SetOutput(out)
	f.Usage = func() { _, _ = fmt.Fprint(out, loadUsage); f.PrintDefaults() }
	f.IntVar(&l.clients, "clients", 2, "`number` of clients, 1 to 254, which take turns")
	f.Float64Var(&l.rate, "rate", 30, "`requests` per second of all clients together")
	seconds := f.Float64("seconds", 5, "how long")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		l.url = f.Arg(0)
	}
	l.duration = time.Duration(*seconds * float64(time.Second))
	switch u, err := url.Parse(l.url); {
	case err != nil || u.Host == "":
		return fmt.Errorf("%q is not a URL like http://host:port/path", l.url)
	case f.NArg() > 1:
		return fmt.Errorf("%d URLs, want one after the flags", f.NArg())
	case l.clients < 1 || l.clients > 254 || !(l.rate > 0) || l.duration <= 0:
		return fmt.Errorf("-clients is %d, -rate %v and -seconds %v, want 1 to 254 clients and numbers above 0",
			l.clients, l.rate, *seconds)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 1000}
	defer transport.CloseIdleConnections()
	r := generate(ctx, transport, l)
	if _, err := fmt.Fprint(out, r); err != nil {
		return err
	}
	if r.err != nil && len(r.by) == 0 {
		return fmt.Errorf("no response: %w", r.err)
	}
	return nil
}

// generate sends a load until its duration is over or ctx ends, and waits for all responses.
func generate(ctx context.Context, transport http.RoundTripper, l load) *result {
	r := &result{load: l, by: make(map[int]*replies)}
	begin := time.Now()
	var all sync.WaitGroup
	defer func() { all.Wait(); r.took = time.Since(begin) }()
	for i := range int(l.rate*l.duration.Seconds() + 0.5) {
		// A late response delays no other request, and the latency of a request includes its delay:
		// otherwise a gateway that hangs would seem to have few requests.
		due := begin.Add(time.Duration(float64(i) / l.rate * float64(time.Second)))
		select {
		case <-ctx.Done():
			return r
		case <-time.After(time.Until(due)):
		}
		all.Go(func() { r.add(send(transport, l.url, i%l.clients+1, due)) })
	}
	return r
}

// reply is the result of one request.
type reply struct {
	status     int
	retryAfter string
	latency    time.Duration
	err        error
}

// send sends a request of one client, for at most half a minute.
func send(transport http.RoundTripper, url string, client int, due time.Time) reply {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return reply{err: err}
	}
	r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.51.100.%d", client))
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return reply{err: err}
	}
	_, err = io.Copy(io.Discard, resp.Body)
	err = errors.Join(err, resp.Body.Close())
	return reply{resp.StatusCode, resp.Header.Get("Retry-After"), time.Since(due), err}
}
