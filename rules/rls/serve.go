package rls

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// The bounds of a gRPC connection in Serve.
const (
	handshakeTime = 10 * time.Second
	maxStreams    = 1024 // requests at once; a client with more of them opens another connection
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
	web, forHTTP := s.httpServer(c.HTTP)
	ended := make(chan error, 3)
	var running sync.WaitGroup
	running.Go(func() { ended <- s.Watch(watching) })
	running.Go(func() { s.reloadAt(watching, c.Reload) })
	running.Go(func() { s.watchPassword(watching) })
	if c.GRPC != nil {
		running.Go(func() { ended <- server.Serve(c.GRPC) })
	}
	if c.HTTP != nil {
		running.Go(func() { ended <- web.Serve(forHTTP) })
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

func closeAll(listeners ...net.Listener) {
	for _, l := range listeners {
		if l != nil {
			_ = l.Close() // closed already if it had a server
		}
	}
}
