package containers_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/redis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/fallback"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

// A paused server answers nothing, and a stopped one has no connections. In both outages the fallback
// decides, and afterwards Redis knows the permits of before.
func TestOutage_PauseAndStop_FallbackDecidesUntilTheEnd(t *testing.T) {
	eachImage(t, func(t *testing.T, image string) {
		container := start(t, image)
		docker, err := testcontainers.NewDockerClientWithOpts(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, docker.Close()) })

		changes := make(chan bool, 10)
		redis := rratelimiter.New(connect(t, container))
		policy := limit.FixedWindow{Permits: 10, Interval: time.Hour}
		window := limit.New(redis, "outage", policy)
		limiter := fallback.New(window, fallback.OnFailure(limit.Open),
			fallback.OnRedisChange(func(_ string, up bool, _ error) { changes <- up }))
		other := limiter.With(limit.New(redis, "other", policy))
		take := func(l *fallback.Limiter) rratelimiter.Source {
			t.Helper()
			_, source, err := l.TryAcquire(t.Context(), 1)
			require.NoError(t, err)
			return source
		}
		await := func(up bool) {
			t.Helper()
			for timeout := time.After(time.Minute); ; {
				take(other) // finds out that Redis is away
				select {
				case got := <-changes:
					require.Equal(t, up, got)
					return
				case <-timeout:
					require.Fail(t, "no change of Redis", "to up: %t", up)
				case <-time.After(10 * time.Millisecond):
				}
			}
		}
		free := func(want int64) {
			t.Helper()
			decisions, err := window.Peek(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, decisions[0].Remaining)
		}

		require.Equal(t, rratelimiter.FromRedis, take(limiter))
		id := container.GetContainerID()
		_, err = docker.ContainerPause(t.Context(), id, client.ContainerPauseOptions{})
		require.NoError(t, err)
		await(false)
		require.Equal(t, fallback.FromMode, take(limiter))
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err = window.TryAcquire(ctx, 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = docker.ContainerUnpause(t.Context(), id, client.ContainerUnpauseOptions{})
		require.NoError(t, err)
		await(true)
		require.Equal(t, rratelimiter.FromRedis, take(limiter))

		// The server saves its keys as it stops.
		require.NoError(t, container.Stop(t.Context(), nil))
		await(false)
		require.Equal(t, fallback.FromMode, take(limiter))
		require.NoError(t, container.Start(t.Context()))
		await(true)
		require.Equal(t, rratelimiter.FromRedis, take(limiter))
		free(7)
	})
}

// connect connects to the port of the container, which changes if that starts again.
func connect(t *testing.T, container *redis.RedisContainer) rueidis.Client {
	t.Helper()
	return servers.Connect(t, rueidis.ClientOption{
		InitAddress: []string{"container"}, ForceSingleClient: true, DisableCache: true,
		DialCtxFn: func(ctx context.Context, _ string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			endpoint, err := container.PortEndpoint(ctx, "6379/tcp", "")
			if err != nil {
				return nil, err
			}
			return dialer.DialContext(ctx, "tcp", endpoint)
		},
	})
}
