package rls

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// Config is what a service is made of. Client and Path are needed; the zero values of the others are good.
type Config struct {
	Client *rratelimiter.Client // on which all limits count
	Path   string               // a file, or a directory of files, as [Load] reads them
	Merge  bool                 // several files may have one domain

	GRPC net.Listener // of [Serve], for Envoy; nil: none
	HTTP net.Listener // of [Serve], for [Server.Handler]; nil: none

	Options []grpc.ServerOption // of the gRPC server of [Serve], credentials for instance
	Drain   time.Duration       // of [Serve]: how long requests are still taken once its health says that it ends, so that nobody is sent to it any more

	Reload <-chan os.Signal // of [Serve], which calls [Server.Reload] for each signal, SIGHUP for instance; nil: none

	HTTPConns int           // the most connections of HTTP at once, of [Serve]; 0: 1,024
	Deadline  time.Duration // for Redis, a request; 0: 100 ms
	Shadow    bool          // every request passes, those over a limit are counted
	Quota     bool          // every descriptor is in quota mode
	Headers   bool          // answers carry RateLimit-Limit, -Remaining and -Reset for Envoy to add
	Metadata  bool          // answers carry the request and the metadata of its descriptors for Envoy's filters
	NearLimit float64       // from which share of a limit on hits count as near it; 0: 0.8
	MaxSeries int           // of metrics that requests can make, by detailed_metric and value_to_metric; 0: 10,000
	Log       *slog.Logger  // nil: [slog.Default]
}

// Server answers rate limit requests. It is safe for concurrent use.
type Server struct {
	ratelimit.UnimplementedRateLimitServiceServer

	config    Config
	cluster   bool
	guard     *guard.Guard
	rules     atomic.Pointer[Rules]
	metrics   metrics
	undecided undecided
	health    *health.Server
	closing   atomic.Bool

	files rulefile.Watcher
}

// New makes a Server, and reads its configuration. It listens to nothing, and asks nothing of Redis.
//
// Errors: *[ConfigError] for the files, [rratelimiter.ErrNoClient], [rratelimiter.ErrInvalidOption] for other fields.
func New(c Config) (*Server, error) {
	client, err := inside.Open(c.Client)
	if err != nil {
		return nil, err
	}
	if c.Drain < 0 || c.Deadline < 0 || c.NearLimit < 0 || c.NearLimit > 1 || c.MaxSeries < 0 || c.HTTPConns < 0 {
		return nil, fmt.Errorf("%w: Drain %v, Deadline %v, NearLimit %v, MaxSeries %d, HTTPConns %d: "+
			"want none below 0, and NearLimit at most 1",
			rratelimiter.ErrInvalidOption, c.Drain, c.Deadline, c.NearLimit, c.MaxSeries, c.HTTPConns)
	}
	c.Deadline = cmp.Or(c.Deadline, 100*time.Millisecond)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	s := &Server{config: c, cluster: client.Engine.Cluster(), health: health.NewServer()}
	s.metrics.nearRatio, s.metrics.most = cmp.Or(c.NearLimit, 0.8), cmp.Or(c.MaxSeries, 10_000)
	s.guard = guard.New(guard.Closed, c.Deadline, func(up bool, err error) {
		s.undecided.away.Store(!up)
		if up {
			c.Log.Info("rls: Redis answers again")
		} else {
			c.Log.Error("rls: Redis does not answer, requests end with an error", "error", err)
		}
	})
	s.files = rulefile.Watcher{Path: c.Path, Belongs: belongs, Every: lookAll, Take: s.take, Report: s.report}
	if err := s.Reload(); err != nil {
		return nil, err
	}
	s.setHealth(grpc_health_v1.HealthCheckResponse_SERVING)
	return s, nil
}

// Register registers the rate limit service and the health service.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	r.RegisterService(&serviceDesc, s)
	grpc_health_v1.RegisterHealthServer(r, s.health)
}

// setHealth sets the health, under each name that clients ask for.
func (s *Server) setHealth(now grpc_health_v1.HealthCheckResponse_ServingStatus) {
	for _, name := range []string{"", "ratelimit", ratelimit.RateLimitService_ServiceDesc.ServiceName} {
		s.health.SetServingStatus(name, now)
	}
}

// ShouldRateLimit answers a request.
//
// Errors: [codes.InvalidArgument] for a request that makes no sense, as without domain or descriptors, and for one
// of more than 256 descriptors or of more than 64 entries in a descriptor; over gRPC also for one of more than 64
// KiB. [codes.Unavailable] where Redis did not answer, at once where it is known not to.
func (s *Server) ShouldRateLimit(ctx context.Context, request *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	if err := checkSize(request); err != nil {
		s.metrics.requests.Add(1)
		s.metrics.serviceErrors.Add(1)
		return nil, err
	}
	response, all, err := s.answer(ctx, s.rules.Load().domains[request.GetDomain()], request)
	if err == nil && s.config.Headers {
		response.ResponseHeadersToAdd = s.headersOf(all)
	}
	return response, err
}

// answer answers a request by a domain, nil if there is none, and says what became of its descriptors.
func (s *Server) answer(
	ctx context.Context, d *domain, request *ratelimit.RateLimitRequest,
) (*ratelimit.RateLimitResponse, []asked, error) {
	begin := time.Now()
	response, all, err := s.decide(ctx, d, request)
	s.metrics.requests.Add(1)
	s.metrics.times.observe(time.Since(begin))
	if err != nil {
		if status.Code(err) == codes.InvalidArgument {
			s.metrics.serviceErrors.Add(1)
		}
		return nil, nil, err
	}
	if s.config.Metadata {
		response.DynamicMetadata = metadataOf(request, all)
	}
	return response, all, nil
}

// Serve runs a service on the listeners of its configuration, and reads that again whenever its files change, until ctx ends. Then
// it says so to those who ask for its health, goes on for [Config].Drain, answers what it has begun, for five seconds at most, and
// returns nil. It closes the listeners.
func Serve(ctx context.Context, c Config) error {
	defer closeAll(c.GRPC, c.HTTP)
	s, err := New(c)
	if err != nil {
		return err
	}
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx)) // what is drained is up to date
	defer cancel()
	server := grpc.NewServer(append(grpcBounds(), c.Options...)...)
	s.Register(server)
	web, forHTTP := s.httpServer(c.HTTP)
	ended := make(chan error, 3)
	var running sync.WaitGroup
	running.Go(func() { ended <- s.Watch(watching) })
	running.Go(func() { s.reloadAt(watching, c.Reload) })
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

// Shutdown reports by its health that the service is about to end. Requests are answered as before.
func (s *Server) Shutdown() {
	s.closing.Store(true)
	s.health.Shutdown()
}

// patience is how long what was begun may take when the service ends.
const patience = 5 * time.Second

func stop(server *grpc.Server, web *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.GracefulStop()
	}()
	if err := web.Shutdown(ctx); err != nil {
		_ = web.Close() // what is left has had its time
	}
	select {
	case <-done:
	case <-ctx.Done():
		server.Stop()
		<-done
	}
}

func closeAll(listeners ...net.Listener) {
	for _, l := range listeners {
		if l != nil {
			_ = l.Close() // its server has done so, where there was one
		}
	}
}
