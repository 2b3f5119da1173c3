package rules

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkPass is what the middleware costs a request that no rule matches.
func BenchmarkPass(b *testing.B) {
	next := new(ok)
	handler := parsed(b, large(10_000)).Middleware(offline)(next)
	r, requests := request("GET /other"), 0
	b.ReportAllocs()
	for b.Loop() {
		requests++
		handler.ServeHTTP(nil, r)
	}
	require.Equal(b, requests, next.served)
}
