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
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
)

// run serves until ctx ends, and then lets the requests under way finish.
func run(ctx context.Context, args []string, out io.Writer) error {
	c, err := parseConfig(args, out)
	if err != nil {
		return err
	}
	redis, where, closeRedis, err := connect()
	if err != nil {
		return err
	}
	defer closeRedis()
	if c.upstream == nil {
		listener, err := net.Listen("tcp", "localhost:0")
		if err != nil {
			return err
		}
		model := &http.Server{Handler: newModel(100 * time.Millisecond), ReadHeaderTimeout: time.Minute}
		go func() { _ = model.Serve(listener) }() // until Close
		defer func() { _ = model.Close() }()
		c.upstream = &url.URL{Scheme: "http", Host: listener.Addr().String()}
	}
	log := slog.New(slog.NewTextHandler(out, nil))
	listener, err := net.Listen("tcp", c.listen)
	if err != nil {
		return err
	}
	server := newServer(newHandler(rratelimiter.New(redis), c, log), c)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	_, _ = fmt.Fprintf(out, "http://%v -> %v: %d requests and %d tokens per minute for each of %d users, counted %s\n",
		listener.Addr(), c.upstream, c.requests, c.tokens, len(c.users), where)
	_, _ = fmt.Fprintf(out, "Look at the RateLimit headers of curl http://%v/v1/chat/completions -iH 'Authorization: Bearer "+
		"KEY' -d '{\"messages\":[{\"role\":\"user\",\"content\":\"Hello!\"}]}', with the key of a user.\n", listener.Addr())

	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second) // for streams
	defer cancel()
	if err = server.Shutdown(ending); err != nil {
		err = errors.Join(fmt.Errorf("requests still under way: %w", err), server.Close())
	}
	return err
}

// newServer returns a server that slow clients cannot block. ReadTimeout also bounds the bodies of denied
// requests, which no handler reads.
func newServer(handler http.Handler, c config) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: min(c.clientTimeout, 5*time.Second),
		ReadTimeout:       c.clientTimeout,
		WriteTimeout:      15 * time.Minute, // models answer for minutes
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
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
