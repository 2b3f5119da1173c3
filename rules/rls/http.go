package rls

import (
	"errors"
	"io"
	"net/http"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

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
