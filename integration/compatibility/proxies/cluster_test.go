package proxies

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/rules/rls"
)

// On a cluster, each descriptor decides by itself, unless slot_by joins them.
func TestService_Cluster_JoinsOneSlot(t *testing.T) {
	const descriptors = `
descriptors:
  - {key: wide, rate_limit: {unit: year, requests_per_unit: 3}}
  - {key: tight, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: ban, rate_limit: {unit: year, requests_per_unit: 0}}
  - key: tenant
    descriptors:
      - {key: wide, rate_limit: {unit: year, requests_per_unit: 3}}
      - {key: tight, rate_limit: {unit: year, requests_per_unit: 1}}
      - {key: ban, rate_limit: {unit: year, requests_per_unit: 0}}
`
	cluster := servers.NewCluster(t)
	conn := servers.Connect(t, rueidis.ClientOption{InitAddress: cluster.Addrs(), DisableCache: true})
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("domain: apart"+descriptors), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.yaml"), []byte("domain: joined\nslot_by: tenant"+descriptors),
		0o600))
	s, err := rls.New(rls.Config{Client: rratelimiter.New(conn), Path: dir, Log: slog.New(slog.DiscardHandler),
		Deadline: 5 * time.Second})
	require.NoError(t, err)

	left := func(domain string, keys ...string) (left []uint32) {
		r := &ratelimit.RateLimitRequest{Domain: domain}
		for _, key := range keys {
			d := &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{{Key: key, Value: "x"}}}
			if domain == "joined" {
				d.Entries = append([]*common.RateLimitDescriptor_Entry{{Key: "tenant", Value: "{7}"}}, d.Entries...)
			}
			r.Descriptors = append(r.Descriptors, d)
		}
		answer, err := s.ShouldRateLimit(context.Background(), r)
		require.NoError(t, err)
		for _, one := range answer.GetStatuses() {
			left = append(left, one.GetLimitRemaining())
		}
		return left
	}
	assert.Equal(t, []uint32{2, 0}, left("apart", "wide", "tight"))
	assert.Equal(t, []uint32{1, 0}, left("apart", "wide", "tight"), "a denial of one takes permits of the other")
	assert.Equal(t, []uint32{0, 0}, left("apart", "wide", "ban"))
	assert.Equal(t, []uint32{2, 0}, left("joined", "wide", "tight"))
	assert.Equal(t, []uint32{2, 0}, left("joined", "wide", "tight"), "a denial of one takes nothing of the other")
	assert.Equal(t, []uint32{2, 0}, left("joined", "wide", "ban"))
	assert.Equal(t, []uint32{1}, left("joined", "wide"))
}
