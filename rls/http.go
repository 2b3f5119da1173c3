package rls

import (
	"errors"
	"io"
	"net/http"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// Handler answers over HTTP. It is for those who run the service and for proxies, not for their clients: who can reach it can use up
// anybody's limits.
//
//   - /healthcheck: 200 and OK, or 500 once [Server.Shutdown] was called.
//   - POST /json: a RateLimitRequest as JSON; its answer as JSON with 200, or 429 where it is over a limit; 400 for a request that
//     makes no sense, 413 for one above 64 KiB, 256 descriptors or 64 entries of one, 500 where Redis does not answer.
//   - /rlconfig: the limits in force, as text.
//   - /metrics: for Prometheus.
//   - /auth/DOMAIN: the twin for auth_request of nginx, ForwardAuth of Traefik and forward_auth of Caddy: 200, or 429 with
//     Retry-After where the request that the proxy asks about is over a limit, or 400 where servers read its path in
//     different ways. ?denied=403 answers 403 instead of both, since nginx knows no other; its configuration makes a 429 of
//     that, see docs/envoy.md.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthcheck", s.healthcheck)
	mux.HandleFunc("POST /json", s.json)
	mux.HandleFunc("GET /rlconfig", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, s.rules.Load().String()) // a client that has gone needs no answer
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = s.metrics.write(w)
	})
	mux.HandleFunc("/auth/{domain}", s.auth)
	return mux
}

func (s *Server) healthcheck(w http.ResponseWriter, _ *http.Request) {
	if s.closing.Load() {
		http.Error(w, "shutting down", http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, "OK")
}

func (s *Server) json(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostRequest))
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
