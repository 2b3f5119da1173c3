package rls

import (
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

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
	guard    *guard.Guard
	rules    atomic.Pointer[Rules]
	metrics  *metrics
	failures *guard.FailureLog
	health   *health.Server
	refused  atomic.Bool // Redis refuses the password

	files rulefile.Watcher
}
