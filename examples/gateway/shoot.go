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

const shootUsage = `gateway shoot sends requests at a steady rate, whether earlier ones have been answered or not, and tells what came back.

	gateway shoot [flags] [URL]   by default at http://localhost:8080/

Each of the clients says by X-Forwarded-For that it is another address, 198.51.100.1 and so on. A gateway believes that
only of peers that it trusts: one with -trust 127.0.0.1/32,::1/128 sees so many clients, one without a single one.

`

// load is what is shot.
type load struct {
	url      string
	clients  int
	rate     float64 // requests a second, of all clients together
	duration time.Duration
}

func runShoot(ctx context.Context, args []string, out io.Writer) error {
	l := load{url: "http://localhost:8080/"}
	f := flag.NewFlagSet("gateway shoot", flag.ContinueOnError)
	f.SetOutput(out)
	f.Usage = func() { _, _ = fmt.Fprint(out, shootUsage); f.PrintDefaults() }
	f.IntVar(&l.clients, "clients", 2, "`number` of clients, 1 to 254, who take turns")
	f.Float64Var(&l.rate, "rate", 30, "`requests` a second, of all clients together")
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
		return fmt.Errorf("%q is no URL as http://host:port/path", l.url)
	case f.NArg() > 1:
		return fmt.Errorf("%d URLs, want one, behind the flags", f.NArg())
	case l.clients < 1 || l.clients > 254 || !(l.rate > 0) || l.duration <= 0:
		return fmt.Errorf("-clients is %d, -rate %v and -seconds %v, want 1 to 254 clients, and numbers above 0", l.clients, l.rate, *seconds)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 1000}
	defer transport.CloseIdleConnections()
	r := shoot(ctx, transport, l)
	if _, err := fmt.Fprint(out, r); err != nil {
		return err
	}
	if r.err != nil && len(r.by) == 0 {
		return fmt.Errorf("nothing was answered: %w", r.err)
	}
	return nil
}

// shoot sends a load, until its time is over or ctx ends, and waits for all answers.
func shoot(ctx context.Context, transport http.RoundTripper, l load) *result {
	r := &result{load: l, by: make(map[int]*answers)}
	begin := time.Now()
	var all sync.WaitGroup
	defer func() { all.Wait(); r.took = time.Since(begin) }()
	for i := range int(l.rate*l.duration.Seconds() + 0.5) {
		// A late answer delays no other request, and a request that is sent late is late by its latency: else a gateway that
		// hangs would look as if few had asked it.
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

// shot is what came back of one request.
type shot struct {
	status     int
	retryAfter string
	latency    time.Duration
	err        error
}

// send sends a request of one of the clients. It lasts half a minute at most.
func send(transport http.RoundTripper, url string, client int, due time.Time) shot {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return shot{err: err}
	}
	r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.51.100.%d", client))
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return shot{err: err}
	}
	_, err = io.Copy(io.Discard, resp.Body)
	err = errors.Join(err, resp.Body.Close())
	return shot{resp.StatusCode, resp.Header.Get("Retry-After"), time.Since(due), err}
}
