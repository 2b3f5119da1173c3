// Package containers_test tests the library on images of Redis and Valkey, as a team tests its own
// programs: with testcontainers-go.
//
// CONTAINER_IMAGES lists the images. The cluster and Redisson connect to the addresses of
// containers, which a Docker engine on Linux routes.
package containers_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/redis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/fallback"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

// eachImage runs a test on each image.
func eachImage(t *testing.T, test func(t *testing.T, image string)) {
	for image := range strings.SplitSeq(cmp.Or(os.Getenv("CONTAINER_IMAGES"), "redis:8.2,valkey/valkey:9.0"), ",") {
		t.Run(image, func(t *testing.T) { test(t, image) })
	}
}

// start starts a container that ends with the test. args are further arguments of the server.
func start(t *testing.T, image string, args ...string) *redis.RedisContainer {
	t.Helper()
	container, err := redis.Run(t.Context(), image, testcontainers.WithCmdArgs(args...))
	testcontainers.CleanupContainer(t, container)
	require.NoError(t, err, "make image-redis makes images where no registry answers: CONTRIBUTING.md")
	return container
}

// addr returns the address of a server in the network of the containers.
func addr(t *testing.T, container *redis.RedisContainer) string {
	t.Helper()
	ip, err := container.ContainerIP(t.Context())
	require.NoError(t, err)
	return net.JoinHostPort(ip, "6379")
}

func TestCalls_SingleServer_GoAndJavaAgree(t *testing.T) {
	eachImage(t, func(t *testing.T, image string) {
		container := start(t, image)
		url, err := container.ConnectionString(t.Context())
		require.NoError(t, err)
		option, err := rueidis.ParseURL(url)
		require.NoError(t, err)
		everyCall(t, servers.Connect(t, option), oracle.Single(strings.TrimPrefix(url, "redis://")), "limiter")
	})
}

func TestCalls_Cluster_GoAndJavaAgree(t *testing.T) {
	eachImage(t, func(t *testing.T, image string) {
		addrs := startCluster(t, image)
		client := servers.Connect(t, rueidis.ClientOption{InitAddress: addrs})
		// The slots of 0, 1 and 2 are those of different masters.
		everyCall(t, client, oracle.Cluster(addrs...), "0", "1", "2", "{tenant}:minute")
	})
}

// everyCall makes all calls on OVERALL and PER_CLIENT limiters, Go and Redisson in turn.
func everyCall(t *testing.T, client rueidis.Client, target oracle.Target, names ...string) {
	t.Helper()
	server := servers.VersionOf(t, client)
	redisson := oracle.Start(t, "4.7.0", target)
	for _, name := range names {
		for _, perClient := range []bool{false, true} {
			calls.Every(t, rratelimiter.New(client), redisson, server, name, perClient)
		}
	}
	t.Logf("%v and Redisson 4.7.0", server)
}

// startCluster starts three masters and returns their addresses when each serves its slots and sees the
// others.
func startCluster(t *testing.T, image string) []string {
	t.Helper()
	const masters = 3
	var addrs []string
	var nodes []rueidis.Client
	for range masters {
		at := addr(t, start(t, image, "--cluster-enabled", "yes"))
		addrs = append(addrs, at)
		nodes = append(nodes, servers.Connect(t, rueidis.ClientOption{InitAddress: []string{at}, ForceSingleClient: true,
			DisableCache: true}))
	}
	for i, node := range nodes {
		host, port, err := net.SplitHostPort(addrs[0])
		require.NoError(t, err)
		addSlots := []string{"CLUSTER", "ADDSLOTS"}
		for slot := i * servers.Slots / masters; slot < (i+1)*servers.Slots/masters; slot++ {
			addSlots = append(addSlots, strconv.Itoa(slot))
		}
		for _, command := range [][]string{addSlots, {"CLUSTER", "MEET", host, port}} {
			require.NoError(t, node.Do(t.Context(), node.B().Arbitrary(command...).Build()).Error())
		}
	}
	for _, node := range nodes {
		require.Eventually(t, func() bool {
			info, err := node.Do(context.Background(), node.B().ClusterInfo().Build()).ToString()
			return err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3")
		}, time.Minute, 50*time.Millisecond)
	}
	return addrs
}

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
