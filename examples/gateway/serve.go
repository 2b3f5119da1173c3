package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
)

// serve runs a gateway until ctx ends, and then lets the requests under way finish.
func serve(ctx context.Context, c config, out io.Writer) error {
	redis, where, closeRedis, err := connect()
	if err != nil {
		return err
	}
	defer closeRedis()
	if c.upstream == nil {
		upstream, closeUpstream, err := startUpstream()
		if err != nil {
			return err
		}
		defer closeUpstream()
		c.upstream = upstream
	}
	m, err := newMetrics()
	if err != nil {
		return err
	}
	client := rratelimiter.New(redis, rratelimiter.WithObserver(m.telemetry.Observer()))
	level := slog.LevelInfo
	if c.quiet {
		level = slog.LevelWarn
	}
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level}))

	clients, err := net.Listen("tcp", c.listen)
	if err != nil {
		return err
	}
	defer func() { _ = clients.Close() }()
	operators, err := net.Listen("tcp", c.admin)
	if err != nil {
		return err
	}
	defer func() { _ = operators.Close() }()
	var draining atomic.Bool
	servers := []*http.Server{newServer(newHandler(client, c, m, log), c, log), newServer(newAdmin(m, &draining), c, log)}
	ended := make(chan error, len(servers))
	go func() { ended <- servers[0].Serve(clients) }()
	go func() { ended <- servers[1].Serve(operators) }()
	_, _ = fmt.Fprintf(out, "http://%v -> %v: %d requests per second and %d per minute for each client on each of the "+
		"routes %v, counted %s\n",
		clients.Addr(), c.upstream, c.perSecond, c.perMinute, c.routes, where)
	_, _ = fmt.Fprintf(out, "http://%v/metrics and /healthz\n", operators.Addr())
	_, _ = fmt.Fprintf(out, "Look at the RateLimit headers of curl -i http://%v/, or run go run ./examples/gateway load "+
		"http://%[1]v/ in another terminal.\n", clients.Addr())

	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	draining.Store(true)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.drain)
	defer cancel()
	var errs []error
	for _, server := range servers {
		if err := server.Shutdown(ending); err != nil {
			errs = append(errs, fmt.Errorf("requests still under way after -drain %v: %w", c.drain, err), server.Close())
		}
	}
	errs = append(errs, client.Flush(context.WithoutCancel(ctx))) // has an effect only with WithLease
	return errors.Join(errs...)
}

// newServer returns a server that slow clients cannot block. See also writeTimeout.
func newServer(handler http.Handler, c config, log *slog.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // for load balancers that terminate TLS
	return &http.Server{
		Handler:           handler,
		Protocols:         protocols,
		ReadHeaderTimeout: min(c.clientTimeout, 5*time.Second),
		ReadTimeout:       c.clientTimeout, // also for bodies that no handler reads
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// newAdmin returns the operators' handler. It has an address of its own, so that clients cannot reach it
// and it hides no path of the upstream.
func newAdmin(m *metrics, draining *atomic.Bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.handler())
	// Health does not include Redis: the gateway works without it, see -redis-down.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if draining.Load() {
			http.Error(w, "draining", http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
	return mux
}

// connect opens the Redis of REDIS_URL, or an in-memory one.
func connect() (redis rueidis.Client, where string, closeAll func(), err error) {
	if address := os.Getenv("REDIS_URL"); address != "" {
		option, err := rueidis.ParseURL(address)
		if err != nil {
			return nil, "", nil, fmt.Errorf("REDIS_URL is not a URL of a Redis: %w", err)
		}
		if redis, err = rueidis.NewClient(option); err != nil {
			return nil, "", nil, fmt.Errorf("no Redis at REDIS_URL, %v: %w", option.InitAddress, err)
		}
		return redis, fmt.Sprintf("in the Redis at %v", option.InitAddress), redis.Close, nil
	}
	server, err := miniredis.Run()
	if err != nil {
		return nil, "", nil, err
	}
	redis, err = rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true,
	})
	if err != nil {
		server.Close()
		return nil, "", nil, err
	}
	return redis, "in memory (REDIS_URL names a real Redis)", func() { redis.Close(); server.Close() }, nil
}

// startUpstream starts a server that describes each request.
func startUpstream() (*url.URL, func(), error) {
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return nil, nil, err
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprintf(w, "%s %s with %d bytes, for %s\n", r.Method, r.URL.Path, n, r.Header.Get("X-Forwarded-For"))
	})
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: handler}
	go func() { _ = server.Serve(listener) }() // until Close
	return &url.URL{Scheme: "http", Host: listener.Addr().String()}, func() { _ = server.Close() }, nil
}
