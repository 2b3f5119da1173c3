package rls

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// auth decides a request that a proxy describes.
func (s *Server) auth(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("domain")
	d := s.rules.Load().domains[name]
	if d == nil || d.web == nil {
		s.metrics.domainNotFound.Inc()
		http.Error(w, "no file has a domain of this name with http", http.StatusNotFound)
		return
	}
	denied, _ := strconv.Atoi(cmp.Or(r.URL.Query().Get("denied"), "429")) // an error makes it 0
	if !slices.Contains([]int{http.StatusTooManyRequests, http.StatusForbidden, http.StatusUnauthorized}, denied) {
		http.Error(w, "denied wants 429, 403 or 401", http.StatusBadRequest)
		return
	}
	s.checkPeer(d, r)
	descriptors, err := d.web.descriptors(r)
	if errors.Is(err, guard.ErrInvalidRequest) {
		if denied == http.StatusTooManyRequests { // a proxy with ?denied= accepts no other status
			denied = http.StatusBadRequest
		}
		writeProblem(w, "about:blank", "Bad Request", denied)
		return
	}
	if err != nil && s.failureLog.due() {
		s.config.Log.Error("rls: the headers of a proxy do not describe the request", "domain", name, "error", err)
	}
	var response *ratelimit.RateLimitResponse
	var all []descriptor
	if err == nil && len(descriptors) > 0 {
		response, all, err = s.answer(r.Context(), d, &ratelimit.RateLimitRequest{Domain: name, Descriptors: descriptors})
	}
	switch {
	case err != nil && d.web.open:
		s.config.Log.Debug("rls: a request passes without a decision of Redis", "domain", name, "error", err)
	case err != nil:
		writeProblem(w, reducedType, "Requests cannot be admitted at the moment.", http.StatusServiceUnavailable)
	default:
		writeAnswer(w, response, s.headersOf(all), denied)
	}
}

// checkPeer logs a peer that is not a trusted proxy: its address is the client of all its requests.
func (s *Server) checkPeer(d *domain, r *http.Request) {
	if !d.web.usesAddress() {
		return
	}
	peer, err := guard.ParseAddr(r.RemoteAddr)
	if err != nil || guard.Contains(d.web.address.Trusted, peer) {
		return
	}
	s.metrics.untrusted.Inc()
	if d.web.warned.CompareAndSwap(false, true) {
		s.config.Log.Warn("rls: a proxy is not trusted, so that all of its clients count as one: add it to http.trust",
			"domain", d.name, "peer", peer)
	}
}

// writeAnswer writes a decision for a proxy.
func writeAnswer(w http.ResponseWriter, response *ratelimit.RateLimitResponse, headers []*core.HeaderValue,
	denied int) {
	for _, header := range headers {
		w.Header().Set(header.GetKey(), header.GetValue())
	}
	if response.GetOverallCode() != ratelimit.RateLimitResponse_OVER_LIMIT {
		return // the status is 200
	}
	if reset := w.Header().Get("RateLimit-Reset"); reset != "" {
		w.Header().Set("Retry-After", reset)
	}
	writeProblem(w, "https://iana.org/assignments/http-problem-types#quota-exceeded", "The request is over its limit.", denied)
}

const reducedType = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"

// writeProblem writes a problem document (RFC 9457).
func writeProblem(w http.ResponseWriter, kind, title string, status int) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(`{"type":"` + kind + `","title":"` + title + `"}` + "\n"))
}
