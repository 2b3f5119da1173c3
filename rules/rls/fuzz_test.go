package rls_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"github.com/rratelimiter/rratelimiter/rules/rls"
)

var allScenarios = slices.Concat(matching, units, hits, modes, beyond)

// FuzzConfig: a file is loaded and can be printed, or its error has a text.
func FuzzConfig(f *testing.F) {
	for _, s := range allScenarios {
		f.Add(s.config("d"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(t.TempDir(), "x.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		rules, err := rls.Load(file, true)
		if err == nil {
			_ = rules.String()
			return
		}
		wrong := rulefile.ProblemsOf(err)
		require.NotEmpty(t, wrong)
		require.True(t, wrong[0].File == file && wrong[0].Reason != "" && utf8.ValidString(err.Error()), "%q", err)
	})
}

// FuzzRequest: a request gets a status for each descriptor, or a gRPC status.
func FuzzRequest(f *testing.F) {
	var domains []string
	for i, s := range allScenarios {
		domain := fmt.Sprint("d", i)
		domains = append(domains, s.config(domain))
		for _, e := range s.exchanges {
			asked := request(f, e.ask)
			asked.Domain = strings.Replace(asked.GetDomain(), "d", domain, 1)
			message, err := proto.Marshal(asked)
			require.NoError(f, err)
			f.Add(message)
		}
	}
	client, _ := guardtest.Connect(f)
	dir := folder(f, domains...)
	server, err := rls.New(rls.Config{Client: client, Path: dir, Log: quiet(), Headers: true, Metadata: true})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, message []byte) {
		var req ratelimit.RateLimitRequest
		if proto.Unmarshal(message, &req) != nil {
			return
		}
		answer, err := server.ShouldRateLimit(context.Background(), &req)
		if err != nil {
			_, ok := status.FromError(err)
			require.True(t, ok, "%T %v", err, err)
			return
		}
		require.Len(t, answer.GetStatuses(), len(req.GetDescriptors()))
		for _, s := range answer.GetStatuses() {
			require.NotEqual(t, ratelimit.RateLimitResponse_UNKNOWN, s.GetCode())
			require.GreaterOrEqual(t, s.GetDurationUntilReset().GetSeconds(), int64(0))
		}
	})
}
