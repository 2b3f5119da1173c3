package rls_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/rls"
)

// The deadline is for a request, also where its descriptors are asked for one after another.
func TestDeadlineIsForTheRequest(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		s := newServer(t, client, simple, func(c *rls.Config) { c.Deadline = 100 * time.Millisecond })
		b.Latency.Store(int64(60 * time.Millisecond))
		begin := time.Now()
		_, err := s.ShouldRateLimit(context.Background(), request(t, "shop"+strings.Repeat(" | user=ann", 5)))
		assert.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
		assert.Equal(t, 100*time.Millisecond, time.Since(begin))
	})
}
