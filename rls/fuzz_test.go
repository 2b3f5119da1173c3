package rls_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/rls"
)

var allScenarios = slices.Concat(matching, units, hits, modes, beyond)

// A file is read, or its error has a text. What was read can be printed.
func FuzzConfig(f *testing.F) {
	for _, s := range allScenarios {
		f.Add(s.config)
	}
	f.Add(webConfig)
	f.Add(bomb())
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(t.TempDir(), "x.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		rules, err := rls.Load(file, true)
		if err == nil {
			_ = rules.String()
			return
		}
		var wrong *rls.ConfigError
		if !errors.As(err, &wrong) || wrong.File != file || wrong.Reason == "" || !utf8.ValidString(err.Error()) {
			t.Fatalf("%T %q", err, err)
		}
	})
}

// A request is answered with a status for each descriptor, or refused with a status of gRPC,
// whatever is defined in it.
func FuzzRequest(f *testing.F) {
	var domains []string
	for _, s := range allScenarios {
		domains = append(domains, s.config)
		for _, e := range s.exchanges {
			message, err := proto.Marshal(request(f, e.ask))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(message)
		}
	}
	client, _ := guardtest.Connect(f)
	dir := folder(f, domains...)
	server, err := rls.New(rls.Config{Client: client, Path: dir, Log: quiet(), Headers: true, Metadata: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		var req ratelimit.RateLimitRequest
		if proto.Unmarshal(message, &req) != nil {
			return
		}
		answer, err := server.ShouldRateLimit(context.Background(), &req)
		if err != nil {
			if _, ok := status.FromError(err); !ok {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		if len(answer.GetStatuses()) != len(req.GetDescriptors()) {
			t.Fatalf("%d statuses for %d descriptors", len(answer.GetStatuses()), len(req.GetDescriptors()))
		}
		for _, s := range answer.GetStatuses() {
			if s.GetCode() == ratelimit.RateLimitResponse_UNKNOWN || s.GetDurationUntilReset().GetSeconds() < 0 {
				t.Fatalf("%v", s)
			}
		}
	})
}

// A proxy is answered whatever its headers say.
func FuzzForwardAuth(f *testing.F) {
	f.Add("POST", "/login", "203.0.113.7", "key")
	f.Add("", "\x00", "::1%eth0", "\xff")
	f.Add("GET", "/api/%zz", "a, b,,", "")
	client, _ := guardtest.Connect(f)
	handler := newServer(f, client, strings.Replace(webConfig, "FAILURE", "closed", 1)).Handler()
	f.Fuzz(func(t *testing.T, method, uri, forwarded, key string) {
		r := httptest.NewRequest(http.MethodGet, "/auth/web", nil)
		r.Header = http.Header{"X-Forwarded-Method": {method}, "X-Forwarded-Uri": {uri}, "X-Forwarded-For": {forwarded},
			"X-Api-Key": {key}}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		switch w.Code {
		case http.StatusOK, http.StatusBadRequest, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		default:
			t.Fatal(w.Code)
		}
	})
}
