package rls_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/rules/rls"
)

// allocated returns the number of bytes that a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestServe_LargeRequest_IsRefusedBeforeItIsDecoded: decoded, a request of 4 MiB takes hundreds of them.
func TestServe_LargeRequest_IsRefusedBeforeItIsDecoded(t *testing.T) {
	client, _ := guardtest.Connect(t)
	s := run(t, rls.Config{Client: client, Path: folder(t, simple)})
	for descriptors, want := range map[int]codes.Code{
		16<<10 - 10: codes.InvalidArgument, 2<<20 - 16: codes.ResourceExhausted,
	} {
		large := new(emptypb.Empty)
		large.ProtoReflect().SetUnknown(append([]byte("\x0a\x04shop"), bytes.Repeat([]byte{0x12, 0x00}, descriptors)...))
		var err error
		took := allocated(func() {
			err = s.Invoke(t.Context(), ratelimit.RateLimitService_ShouldRateLimit_FullMethodName, large,
				new(ratelimit.RateLimitResponse))
		})
		assert.Equal(t, want, status.Code(err), "%v", err)
		assert.Less(t, took, uint64(100<<20), "bytes, with those of the client and of gRPC")
	}
}

func TestShouldRateLimit_TooManyParts_IsInvalid(t *testing.T) {
	client, _ := guardtest.Connect(t)
	s := newServer(t, client, simple)
	for ask, want := range map[string]codes.Code{
		"shop" + strings.Repeat(" | none=1", 256): codes.OK,
		"shop" + strings.Repeat(" | none=1", 257): codes.InvalidArgument,
		"shop |" + strings.Repeat(" none=1", 64):  codes.OK,
		"shop |" + strings.Repeat(" none=1", 65):  codes.InvalidArgument,
	} {
		_, err := s.ShouldRateLimit(t.Context(), request(t, ask))
		assert.Equal(t, want, status.Code(err), "%v", err)
	}
}

// TestHandler_LargeJSON_IsRefused with 413, by the number of bytes, of descriptors and of entries.
func TestHandler_LargeJSON_IsRefused(t *testing.T) {
	client, _ := guardtest.Connect(t)
	handler := newServer(t, client, simple).Handler()
	for name, body := range map[string]string{
		"descriptors": `{"domain":"shop","descriptors":[{}` + strings.Repeat(",{}", 256) + `]}`,
		"entries":     `{"domain":"shop","descriptors":[{"entries":[{}` + strings.Repeat(",{}", 64) + `]}]}`,
		"bytes":       `{"domain":"` + strings.Repeat("x", 64<<10) + `"}`,
		"4 MiB":       `{"domain":"shop","descriptors":[{}` + strings.Repeat(",{}", 4<<20/3-20) + `]}`,
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(body))
		took := allocated(func() { handler.ServeHTTP(w, r) })
		assert.Equal(t, http.StatusRequestEntityTooLarge, w.Code, name)
		assert.Less(t, took, uint64(16<<20), name)
	}
}
