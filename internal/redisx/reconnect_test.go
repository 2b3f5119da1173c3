package redisx

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
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

// role is a server of Redis in memory that can become a replica. Its replies to GET take five seconds.
type role struct {
	*miniredis.Miniredis

	replica atomic.Bool
}

func newRole(t *testing.T) *role {
	s := &role{Miniredis: miniredis.NewMiniRedis()}
	conn, err := memredis.Connect(s.Miniredis) // the server exists from the first connection on
	require.NoError(t, err)
	conn.Close()
	t.Cleanup(s.Close)
	s.Server().SetPreHook(func(peer *server.Peer, command string, args ...string) bool {
		switch {
		case command == "GET":
			time.Sleep(5 * time.Second)
		case command == "HELLO" && len(args) == 0:
			peer.WriteMapLen(1)
			peer.WriteBulk("role")
			peer.WriteBulk(map[bool]string{false: "master", true: "replica"}[s.replica.Load()])
			return true
		case command == "SET" && s.replica.Load():
			peer.WriteError("READONLY You can't write against a read only replica.")
			return true
		}
		return false
	})
	return s
}

// dialer is what a client of Redial dials: another server from time to time.
type dialer struct {
	server atomic.Pointer[role]
	dials  atomic.Int32
	open   []rueidis.Client
}

const dialTime = 10 * time.Millisecond

func (a *dialer) dial() (rueidis.Client, error) {
	a.dials.Add(1)
	time.Sleep(dialTime)
	client, err := memredis.Connect(a.server.Load().Miniredis)
	a.open = append(a.open, client)
	return client, err
}

// redialed returns a client of an address.
func redialed(t *testing.T, at *role) (rueidis.Client, *dialer) {
	a := new(dialer)
	a.server.Store(at)
	client, err := a.dial()
	require.NoError(t, err)
	return Redial(client, a.dial), a
}

func set(t *testing.T, c rueidis.Client) error {
	one := c.Do(t.Context(), c.B().Set().Key("k").Value("v").Build()).Error()
	several := c.DoMulti(t.Context(), c.B().Set().Key("k").Value("v").Build())[0].Error()
	assert.Equal(t, one, several)
	return one
}

func isClosed(t *testing.T, c rueidis.Client) bool {
	return errors.Is(c.Do(t.Context(), c.B().Ping().Build()).Error(), rueidis.ErrClosing)
}

// TestRedial_ServerBecomesReplica_OneForAllCallers: calls fail until it ends. Those in flight have their replies
// from the old connection, which is closed later.
func TestRedial_ServerBecomesReplica_OneForAllCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, other := newRole(t), newRole(t)
		c, at := redialed(t, old)
		defer c.Close()
		require.NoError(t, set(t, c))

		at.server.Store(other)
		old.replica.Store(true)
		for range 100 {
			go func() { assert.True(t, isFromReplica(set(t, c))) }()
		}
		synctest.Wait()
		inFlight := make(chan error)
		go func() { inFlight <- c.Do(t.Context(), c.B().Get().Key("k").Build()).Error() }()
		synctest.Wait()
		time.Sleep(2 * dialTime)
		require.NoError(t, set(t, c))
		require.EqualValues(t, 2, at.dials.Load())
		require.NoError(t, <-inFlight)
		require.False(t, isClosed(t, at.open[0]))
		time.Sleep(replacedFor)
		require.True(t, isClosed(t, at.open[0]))
	})
}

// TestRedial_Receive_GoesOn: on the new connection, when the old one is closed.
func TestRedial_Receive_GoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, other := newRole(t), newRole(t)
		c, at := redialed(t, old)
		old.replica.Store(true)
		at.server.Store(other)
		require.Error(t, set(t, c))
		received, ended := make(chan string, 1), make(chan error)
		go func() {
			ended <- c.Receive(t.Context(), c.B().Subscribe().Channel("c").Build(),
				func(m rueidis.PubSubMessage) { received <- m.Message })
		}()
		time.Sleep(dialTime)
		require.Equal(t, 1, old.Publish("c", "old"))
		require.Equal(t, "old", <-received)
		time.Sleep(replacedFor + time.Second)
		require.Equal(t, 1, other.Publish("c", "new"))
		require.Equal(t, "new", <-received)
		c.Close()
		require.ErrorIs(t, <-ended, rueidis.ErrClosing)
	})
}

// TestRedial_ServerStaysReplica_OneASecond: each such connection is closed at once.
func TestRedial_ServerStaysReplica_OneASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		only := newRole(t)
		c, at := redialed(t, only)
		defer c.Close()
		only.replica.Store(true)
		for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(time.Millisecond) {
			require.True(t, isFromReplica(set(t, c)))
		}
		require.InDelta(t, 60, at.dials.Load(), 2)
		for _, client := range at.open[1:] {
			require.True(t, isClosed(t, client))
		}
		only.replica.Store(false)
		require.NoError(t, set(t, c))
	})
}

// TestRedial_Close_ClosesAll: the client in use, one that it has replaced, and one that is being dialed.
func TestRedial_Close_ClosesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		only := newRole(t)
		c, at := redialed(t, only)
		at.server.Store(newRole(t))
		only.replica.Store(true)
		require.Error(t, set(t, c))
		time.Sleep(reconnectPause + 2*dialTime)
		at.server.Load().replica.Store(true)
		at.server.Store(newRole(t))
		require.Error(t, set(t, c))
		time.Sleep(dialTime / 2)
		c.Close()
		c.Close()
		time.Sleep(dialTime)
		synctest.Wait()
		require.True(t, isClosed(t, c))
		require.Len(t, at.open, 3)
		for _, client := range at.open {
			require.True(t, isClosed(t, client))
		}
	})
}

// TestRedial_NewServerCannotBeUsed_KeepsTheClient: it cannot be dialed, or is a cluster.
func TestRedial_NewServerCannotBeUsed_KeepsTheClient(t *testing.T) {
	cluster := miniredis.RunT(t)
	for name, connect := range map[string]func() (rueidis.Client, error){
		"refused": func() (rueidis.Client, error) { return nil, io.EOF },
		"refused, forced to be single": func() (rueidis.Client, error) {
			client, err := memredis.Connect(cluster)
			require.NoError(t, err)
			return client, io.EOF
		},
		"cluster": func() (rueidis.Client, error) {
			return rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{cluster.Addr()}, DisableCache: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			only := newRole(t)
			var client rueidis.Client
			client, err := memredis.Connect(only.Miniredis)
			require.NoError(t, err)
			dialed := make(chan rueidis.Client, 1)
			c := Redial(client, func() (rueidis.Client, error) {
				client, err := connect()
				dialed <- client
				return client, err
			})
			only.replica.Store(true)
			require.Error(t, set(t, c))
			got := <-dialed
			only.replica.Store(false)
			require.NoError(t, set(t, c))
			require.Eventually(t, func() bool { return got == nil || isClosed(t, got) }, time.Minute, time.Millisecond)
			require.Equal(t, rueidis.ClientModeStandalone, c.Mode())
			c.Close()
		})
	}
}

// TestRedial_OtherModes_IsTheClient: rueidis finds the new master.
func TestRedial_OtherModes_IsTheClient(t *testing.T) {
	address := miniredis.RunT(t).Addr()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	require.Equal(t, rueidis.ClientModeCluster, client.Mode())
	require.Same(t, client, Redial(client, nil))
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
