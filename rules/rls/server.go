package rls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// New returns a Server with its configuration loaded. It does not listen, and makes no call to
// Redis.
//
// Errors: those of [Load] for the files, [rratelimiter.ErrNoClient], and
// [rratelimiter.ErrInvalidOption] for other fields.
func New(c Config) (*Server, error) {
	client, ok := inside.Of[inside.Client](c.Client)
	if !ok {
		return nil, fmt.Errorf("%w: Config.Client: create it with rratelimiter.New", rratelimiter.ErrNoClient)
	}
	if client.Err != nil {
		return nil, client.Err
	}
	if c.Drain < 0 || c.Deadline < 0 || c.NearLimit < 0 || c.NearLimit > 1 {
		return nil, fmt.Errorf("%w: Drain %v, Deadline %v, NearLimit %v: want none below 0, and NearLimit at most 1",
			rratelimiter.ErrInvalidOption, c.Drain, c.Deadline, c.NearLimit)
	}
	c.Deadline = cmp.Or(c.Deadline, 500*time.Millisecond)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	s := &Server{
		config: c, engine: client.Engine, health: health.NewServer(),
		metrics: newMetrics(cmp.Or(c.NearLimit, 0.8)),
	}
	s.failures = &outage.FailureLog{
		Log: c.Log, Up: "rls: Redis answers again", Moved: "rls: another node of Redis has taken over",
		Down:   "rls: Redis does not answer, requests end with an error",
		Failed: "rls: requests end with an error, while Redis answers others",
	}
	s.guard = outage.New(c.Deadline, s.failures.RedisChanged)
	s.files = rulefile.Watcher{Path: c.Path, Belongs: belongs, Every: pollInterval, Signals: c.Reload, Apply: s.apply,
		Report: s.report}
	s.rules.Store(new(Rules))
	if err := s.Reload(); err != nil {
		return nil, err
	}
	s.setHealth(grpc_health_v1.HealthCheckResponse_SERVING)
	return s, nil
}

func (s *Server) setHealth(status grpc_health_v1.HealthCheckResponse_ServingStatus) {
	for _, name := range []string{"", "ratelimit", ratelimit.RateLimitService_ServiceDesc.ServiceName} { // that clients use
		s.health.SetServingStatus(name, status)
	}
}

// Register registers the rate limit service and the health service, for a gRPC server other than that
// of [Serve]. The server needs grpc.MaxRecvMsgSize(64 << 10) too: a decoded request takes up to a
// hundred times its size.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	ratelimit.RegisterRateLimitServiceServer(r, s)
	grpc_health_v1.RegisterHealthServer(r, s.health)
}

// ShouldRateLimit answers a request. Errors:
//
//   - [codes.InvalidArgument] is for an invalid request, for instance without a domain or
//     descriptors. The bounds are 256 descriptors with 64 entries each.
//   - [codes.Unavailable] means that Redis did not answer. During a detected outage it is returned
//     at once.
func (s *Server) ShouldRateLimit(ctx context.Context,
	request *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	if err := checkSize(request); err != nil {
		s.metrics.requests.Inc()
		s.metrics.serviceErrors.Inc()
		return nil, err
	}
	begin := time.Now()
	response, all, err := s.decide(ctx, s.rules.Load().domains[request.GetDomain()], request)
	s.metrics.requests.Inc()
	s.metrics.times.Observe(time.Since(begin).Seconds())
	s.log(ctx, request, all, err)
	if err != nil {
		if status.Code(err) == codes.InvalidArgument {
			s.metrics.serviceErrors.Inc()
		}
		return nil, err
	}
	if s.config.Headers {
		response.ResponseHeadersToAdd = s.headersOf(all)
	}
	if s.config.Metadata {
		response.DynamicMetadata = metadataOf(request, all)
	}
	return response, nil
}

// log logs a request at debug level, with the limits of each descriptor and their decision.
func (s *Server) log(ctx context.Context, request *ratelimit.RateLimitRequest, all []descriptor, err error) {
	if !s.config.Log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	descriptors := make([]string, len(request.GetDescriptors()))
	for i, received := range request.GetDescriptors() {
		for _, entry := range received.GetEntries() {
			descriptors[i] += entry.GetKey() + "=" + entry.GetValue() + " "
		}
		if err == nil {
			descriptors[i] += fmt.Sprint(all[i].limits, " ", all[i].status.GetCode())
		}
	}
	s.config.Log.DebugContext(ctx, "rls: request", "domain", request.GetDomain(), "descriptors", descriptors, "error", err)
}

// failed returns the error of a request that Redis did not decide.
func (s *Server) failed(err error) error {
	s.metrics.redisErrors.Inc()
	s.failures.RequestFailed(err)
	if errors.Is(err, context.DeadlineExceeded) {
		return status.Errorf(codes.Unavailable, "rls: Redis did not answer within %v", s.config.Deadline)
	}
	return status.Errorf(codes.Unavailable, "rls: cannot decide: %v", err)
}

// Config is the configuration of a service. Client is required; the zero values of all other fields are
// valid.
type Config struct {
	Client *rratelimiter.Client // the Client of all limiters
	Path   string               // a file, or a directory of files, as for [Load]; "" for no limits
	Merge  bool                 // several files may have one domain

	GRPC net.Listener // for Envoy, with [Serve]; may be nil
	HTTP net.Listener // for [Server.Handler], with [Serve]; may be nil
	// Other answers the requests of [Server.Handler] for other paths, for instance those of
	// ForwardAuth of package rules; may be nil.
	Other http.Handler

	Options []grpc.ServerOption // of the gRPC server of [Serve], for instance credentials
	// Drain is the time for which [Serve] continues to accept requests after its health reports the
	// end. It lets clients and load balancers choose another server first.
	Drain time.Duration

	// Reload makes [Serve] call [Server.Reload] for each signal, for instance SIGHUP; it may be
	// nil.
	Reload <-chan os.Signal

	Deadline  time.Duration // for Redis, per request; 0 means 500 ms
	Shadow    bool          // all requests pass, and those over a limit are counted
	Quota     bool          // all descriptors are in quota mode
	Headers   bool          // responses have RateLimit-Limit, -Remaining and -Reset, which Envoy adds
	Metadata  bool          // responses have the request and the descriptors' metadata, for Envoy's filters
	NearLimit float64       // the share of a limit from which hits count as near; 0 means 0.8
	Log       *slog.Logger  // nil means [slog.Default]
}

// Server answers rate limit requests. It is safe for concurrent use.
type Server struct {
	ratelimit.UnimplementedRateLimitServiceServer

	config   Config
	engine   *engine.Engine
	guard    *outage.Guard
	rules    atomic.Pointer[Rules]
	metrics  *metrics
	failures *outage.FailureLog
	health   *health.Server
	refused  atomic.Bool // Redis refuses the password

	files rulefile.Watcher
}
