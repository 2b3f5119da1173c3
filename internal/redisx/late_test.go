package redisx

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/memredis"
)

// TestLate_Calls_FailUntilItHasConnected: with the last error of connecting, and commands that were built
// before do not reach a cluster.
func TestLate_Calls_FailUntilItHasConnected(t *testing.T) {
	server := miniredis.RunT(t)
	first, second := errors.New("first"), errors.New("second")
	attempts := make(chan func() (rueidis.Client, error))
	l := Late(first, func() (rueidis.Client, error) { return (<-attempts)() })
	ctx := t.Context()
	get := func() rueidis.Completed { return l.B().Get().Key("x").Build() }
	cached := func() rueidis.Cacheable { return l.B().Get().Key("x").Cache() }
	calls := map[string]func(rueidis.Completed, rueidis.Cacheable) error{
		"Do":      func(c rueidis.Completed, _ rueidis.Cacheable) error { return l.Do(ctx, c).Error() },
		"DoMulti": func(c rueidis.Completed, _ rueidis.Cacheable) error { return l.DoMulti(ctx, c)[0].Error() },
		"DoCache": func(_ rueidis.Completed, c rueidis.Cacheable) error { return l.DoCache(ctx, c, time.Hour).Error() },
		"DoMultiCache": func(_ rueidis.Completed, c rueidis.Cacheable) error {
			return l.DoMultiCache(ctx, rueidis.CT(c, time.Hour))[0].Error()
		},
		"DoStream": func(c rueidis.Completed, _ rueidis.Cacheable) error {
			s := l.DoStream(ctx, c)
			_, err := s.WriteTo(io.Discard)
			return err
		},
		"DoMultiStream": func(c rueidis.Completed, _ rueidis.Cacheable) error {
			s := l.DoMultiStream(ctx, c)
			_, err := s.WriteTo(io.Discard)
			return err
		},
		"Dedicated": func(rueidis.Completed, rueidis.Cacheable) error {
			return l.Dedicated(func(d rueidis.DedicatedClient) error { return d.Do(ctx, d.B().Get().Key("x").Build()).Error() })
		},
		"Dedicate": func(rueidis.Completed, rueidis.Cacheable) error {
			d, cancel := l.Dedicate()
			defer cancel()
			return d.Do(ctx, d.B().Get().Key("x").Build()).Error()
		},
	}
	for _, want := range []error{first, second} {
		for name, call := range calls {
			require.ErrorIs(t, call(get(), cached()), want, name)
		}
		require.Error(t, l.Receive(ctx, l.B().Subscribe().Channel("c").Build(), nil))
		require.Equal(t, rueidis.ClientModeStandalone, l.Mode())
		require.Empty(t, l.Nodes(), "none has a name")
		l.B().Mget().Key("x", "y").Build() // of two slots
		if errors.Is(want, first) {
			attempts <- func() (rueidis.Client, error) { return nil, second }
			require.Eventually(t, func() bool { return errors.Is(l.Do(ctx, get()).Error(), second) }, time.Minute,
				time.Millisecond)
		}
	}
	before, cachedBefore := make([]rueidis.Completed, len(calls)), make([]rueidis.Cacheable, len(calls))
	for i := range before {
		before[i], cachedBefore[i] = get(), cached()
	}
	subscribe := l.B().Subscribe().Channel("c").Build()
	attempts <- func() (rueidis.Client, error) {
		return rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	}
	require.Eventually(t, func() bool {
		return l.Do(ctx, l.B().Set().Key("x").Value("1").Build()).Error() == nil
	}, time.Minute, time.Millisecond)
	require.Equal(t, rueidis.ClientModeCluster, l.Mode())
	require.Len(t, l.Nodes(), 1)
	i := 0
	for name, call := range calls {
		require.NoError(t, call(get(), cached()), name)
		if name != "Dedicated" && name != "Dedicate" {
			require.ErrorIs(t, call(before[i], cachedBefore[i]), second, name)
		}
		i++
	}
	require.ErrorIs(t, l.Receive(ctx, subscribe, nil), second)
	l.Close()
	require.Eventually(t, func() bool { return errors.Is(l.Do(ctx, get()).Error(), rueidis.ErrClosing) }, time.Minute,
		time.Millisecond)
}

// TestLate_Close_EndsTheAttempts: also that of an attempt that connects then.
func TestLate_Close_EndsTheAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		var connected rueidis.Client
		l := Late(io.EOF, func() (client rueidis.Client, err error) {
			time.Sleep(time.Minute)
			connected, err = memredis.Connect(server)
			return connected, err
		})
		require.Equal(t, rueidis.ClientModeStandalone, l.Mode())
		time.Sleep(2 * time.Second)
		l.Close()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.ErrorIs(t, connected.Do(t.Context(), connected.B().Ping().Build()).Error(), rueidis.ErrClosing)
	})
}

func TestAway_Errors_ThatMayPass(t *testing.T) {
	for err, want := range map[error]bool{
		&net.OpError{Op: "dial", Err: errors.New("refused")}: true, &net.DNSError{Err: "no such host"}: true,
		context.DeadlineExceeded: true, io.EOF: true, rueidis.ErrNoAddr: false, x509.UnknownAuthorityError{}: false,
		errors.New("the redis role is not master"):                                                   true,
		fmt.Errorf("BUSY Redis is busy running a script: [CLIENT TRACKING]\n%w", rueidis.ErrNoCache): true,
		fmt.Errorf("NOPERM this user has no permissions: [CLIENT TRACKING]\n%w", rueidis.ErrNoCache): false,
	} {
		assert.Equal(t, want, Away(err), "%v", err)
	}
}

// TestAnswers_ErrorReplies: a server that cannot serve says so.
func TestAnswers_ErrorReplies(t *testing.T) {
	redis := miniredis.NewMiniRedis()
	conn, err := memredis.Connect(redis)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(); redis.Close() })
	var reply string
	redis.Server().SetPreHook(func(peer *server.Peer, command string, _ ...string) bool {
		if command == "GET" {
			peer.WriteError(reply)
		}
		return command == "GET"
	})
	const script = "ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -"
	for text, want := range map[string]bool{
		"WRONGTYPE Operation against a key holding the wrong kind of value":                   true,
		"NOPERM this user has no permissions to access one of the keys":                       true,
		"ERR user_script:1: attempt to index a nil value script: 1, on @user_script:1.":       true,
		script + "WRONGTYPE Operation against a key":                                          true,
		"NOAUTH Authentication required.":                                                     true,
		"BUSYKEY Target key name already exists.":                                             true,
		"ERR the key is called x: -OOMPH":                                                     true,
		script + "OOM command not allowed when used memory > 'maxmemory'.":                    false,
		script + "READONLY You can't write against a read only replica.":                      false,
		"ERR max number of clients reached":                                                   false,
		"MISCONF Redis is configured to save RDB snapshots":                                   false,
		"BUSY Redis is busy running a script.":                                                false,
		"CLUSTERDOWN Hash slot not served":                                                    false,
		"NOREPLICAS Not enough good replicas to write.":                                       false,
		"READONLY You can't write against a read only replica. script: 1, on @user_script:1.": false,
	} {
		reply = text
		err := conn.Do(t.Context(), conn.B().Get().Key("x").Build()).Error()
		require.EqualError(t, err, strings.TrimPrefix(text, "ERR "))
		assert.Equal(t, want, Answers(fmt.Errorf("limit: limiter %q: %w", "x", err)), text)
	}
	for _, err := range []error{nil, io.EOF, context.DeadlineExceeded, rueidis.Nil, rueidis.ErrClosing} {
		assert.False(t, Answers(err), "%v", err)
	}
}
