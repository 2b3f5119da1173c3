package rls

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/rueidis"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// The bounds of a gRPC connection in Serve.
const (
	handshakeTime = stopTimeout // a handshake delays the end no longer than an open request
	maxStreams    = 1024        // requests at once; a client with more of them opens another connection
)

// The bounds of the HTTP side of Serve. Requests are small and answers are quick, so that a slow
// client is a fault or an attack.
const (
	readTime  = 5 * time.Second  // for a request, its body included
	writeTime = 30 * time.Second // for a response, in addition to Config.Deadline
	idleTime  = 10 * time.Second // between requests: connections that wait get the place of an idle one
	maxHeader = 64 << 10         // bytes
	maxConns  = 1024
)

// httpServer returns the HTTP side of Serve, and the listener that it serves: connections beyond
// maxConns wait until others end, idle ones after idleTime.
func (s *Server) httpServer(l net.Listener) (*http.Server, net.Listener) {
	return &http.Server{
		Handler: s.Handler(), ReadTimeout: readTime, WriteTimeout: writeTime + s.config.Deadline, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader,
	}, netutil.LimitListener(l, maxConns)
}

// Serve runs a service on the listeners of its configuration until ctx ends. It reloads the
// configuration whenever its files change. When ctx ends, Serve reports the end by its health,
// continues for [Config].Drain, finishes open requests for at most five seconds, and returns nil.
// It closes the listeners.
func Serve(ctx context.Context, c Config) error {
	defer closeAll(c.GRPC, c.HTTP)
	s, err := New(c)
	if err != nil {
		return err
	}
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx)) // reload while draining too
	defer cancel()
	server := grpc.NewServer(append([]grpc.ServerOption{
		grpc.ConnectionTimeout(handshakeTime), grpc.MaxConcurrentStreams(maxStreams), grpc.MaxRecvMsgSize(maxRequest),
	}, c.Options...)...)
	s.Register(server)
	forGRPC, forHTTP := &listener{Listener: c.GRPC}, &listener{Listener: c.HTTP}
	web, limited := s.httpServer(forHTTP)
	ended := make(chan error, 3)
	var running sync.WaitGroup
	running.Go(func() { ended <- s.Watch(watching) })
	running.Go(func() { s.watchPassword(watching) })
	if c.GRPC != nil {
		running.Go(func() { ended <- server.Serve(forGRPC) })
	}
	if c.HTTP != nil {
		running.Go(func() { ended <- web.Serve(limited) })
	}
	select {
	case <-ctx.Done():
		s.Shutdown()
		select {
		case <-time.After(c.Drain):
		case err = <-ended:
		}
	case err = <-ended:
		s.Shutdown()
	}
	cancel()
	forGRPC.closeSilent()
	forHTTP.closeSilent()
	stop(server, web)
	running.Wait()
	return err
}

// pingInterval is the time between two checks of the password.
const pingInterval = 2 * time.Second

// watchPassword makes the health report whether Redis refuses the password of a new connection. Another
// failure of Redis does not change the health: an end of the service would not help.
func (s *Server) watchPassword(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pingInterval):
		}
		// The call has no deadline, whose end would close the connection.
		redis := s.engine.Redis()
		err := redis.Do(ctx, redis.B().Ping().Build()).Error()
		said, answered := rueidis.IsRedisErr(err)
		refused := answered && (strings.HasPrefix(said.Error(), "WRONGPASS") || strings.HasPrefix(said.Error(), "NOAUTH"))
		if err != nil && !answered || s.refused.Swap(refused) == refused {
			continue
		}
		if refused {
			s.config.Log.Error("rls: Redis refuses the password, the health reports it", "error", said)
			s.setHealth(grpc_health_v1.HealthCheckResponse_NOT_SERVING)
		} else {
			s.config.Log.Info("rls: Redis accepts the password")
			s.setHealth(grpc_health_v1.HealthCheckResponse_SERVING)
		}
	}
}

// Shutdown makes the health report that the service is about to end. Requests are answered as
// before.
func (s *Server) Shutdown() { s.health.Shutdown() }

// stopTimeout bounds the time for open requests at the end of the service.
const stopTimeout = 5 * time.Second

func stop(server *grpc.Server, web *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, server.Stop)() // ends GracefulStop
	var stopping sync.WaitGroup
	stopping.Go(func() {
		if err := web.Shutdown(ctx); err != nil {
			_ = web.Close() // end the open requests
		}
	})
	server.GracefulStop()
	stopping.Wait()
}

// listener knows the connections whose clients have sent nothing. Neither server ends these.
type listener struct {
	net.Listener
	silent sync.Map    // *conn
	ending atomic.Bool // others are closed at once
}

type conn struct {
	net.Conn
	of *listener
}

func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{accepted, l}
	if l.silent.Store(c, nil); l.ending.Load() {
		_ = c.Close() // its server notices
	}
	return c, nil
}

func (c *conn) Read(p []byte) (n int, err error) {
	if n, err = c.Conn.Read(p); n > 0 || err != nil {
		c.of.silent.Delete(c)
	}
	return n, err
}

func (l *listener) closeSilent() {
	l.ending.Store(true)
	for c := range l.silent.Range {
		_ = c.(*conn).Close() //nolint:errcheck,forcetypeassert // nothing else is there; its server notices
	}
}

func closeAll(listeners ...net.Listener) {
	for _, l := range listeners {
		if l != nil {
			_ = l.Close() // closed already if it had a server
		}
	}
}

// Handler returns the HTTP side of the service. It is for operators and proxies, and not for their
// clients: any caller of it can use up the limits of all clients.
//
//   - /healthcheck: 200 and OK, or 500 after [Server.Shutdown], and in [Serve] while Redis refuses the
//     password.
//   - POST /json: takes a RateLimitRequest as JSON. It answers with JSON and 200, or 429 for a
//     request over a limit. A malformed request gets 400, one above 64 KiB, 256 descriptors or 64
//     entries of one gets 413. It answers 500 if Redis does not answer.
//   - /rlconfig: the limits in force, as text.
//   - /metrics: metrics for Prometheus.
//   - all others: [Config].Other, if it is set.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthcheck", s.healthcheck)
	mux.HandleFunc("POST /json", s.json)
	mux.HandleFunc("GET /rlconfig", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, s.rules.Load().String()) // an error means that the client has left
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	if s.config.Other != nil {
		mux.Handle("/", s.config.Other)
	}
	return mux
}

func (s *Server) healthcheck(w http.ResponseWriter, r *http.Request) {
	answer, err := s.health.Check(r.Context(), new(grpc_health_v1.HealthCheckRequest))
	if err != nil || answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		reason := "shutting down"
		if s.refused.Load() {
			reason = "Redis refuses the password"
		}
		http.Error(w, reason, http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, "OK")
}

func (s *Server) json(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		code := http.StatusBadRequest
		if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
			code = http.StatusRequestEntityTooLarge
		}
		http.Error(w, http.StatusText(code), code)
		return
	}
	var request ratelimit.RateLimitRequest
	if err := protojson.Unmarshal(body, &request); err != nil {
		http.Error(w, "want a RateLimitRequest as JSON", http.StatusBadRequest)
		return
	}
	if err := checkSize(&request); err != nil {
		http.Error(w, status.Convert(err).Message(), http.StatusRequestEntityTooLarge)
		return
	}
	response, err := s.ShouldRateLimit(r.Context(), &request)
	var text []byte
	if err == nil {
		text, err = protojson.Marshal(response)
	}
	if err != nil {
		if status.Code(err) == codes.InvalidArgument {
			http.Error(w, status.Convert(err).Message(), http.StatusBadRequest)
		} else {
			http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		}
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if response.GetOverallCode() == ratelimit.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(text)
}
