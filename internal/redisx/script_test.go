package redisx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestScript_Unknown_IsSentWithItsText: also behind another call, whose reply is not returned.
func TestScript_Unknown_IsSentWithItsText(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		before := []Call{{Script: NewScript(`return redis.call('SET', KEYS[1], ARGV[1])`), Keys: []string{"a"}, Args: []string{"1"}}}
		for _, first := range [][]Call{nil, nil, before} {
			message, err := (&Call{echoScript, []string{"k"}, []string{"x"}}).Exec(t.Context(), f.Conn, first)
			require.NoError(t, err)
			reply := ReadReply(message)
			assert.Equal(t, []any{"k", int64(1), int64(1), "x", true},
				[]any{reply.Text(), reply.Number(), reply.Number(), reply.Text(), reply.Ended()})
		}
		value, err := f.Conn.Do(t.Context(), f.Conn.B().Get().Key("a").Build()).ToString()
		require.NoError(t, err)
		assert.Equal(t, "1", value)
		refuses := Call{Script: NewScript(`return redis.error_reply('NOPERM no')`), Keys: []string{"k"}}
		_, err = refuses.Exec(t.Context(), f.Conn, nil)
		refused, ok := rueidis.IsRedisErr(err)
		assert.True(t, ok)
		assert.ErrorContains(t, refused, "NOPERM")
	})
}

// TestReplyLost_CredentialsAreRefused: rueidis ends the calls in flight with the reply to its own AUTH.
func TestReplyLost_CredentialsAreRefused(t *testing.T) {
	for reply, lost := range map[string]bool{
		"WRONGPASS invalid username-password pair or user is disabled.":                                 true,
		"ERR AUTH <password> called without any password configured for the default user. Are you sure": true,
		"NOAUTH Authentication required.":                                                               false,
		"NOPERM this user has no permissions to run the 'evalsha' command":                              false,
		"OOM command not allowed when used memory > 'maxmemory'.":                                       false,
	} {
		redis := miniredis.RunT(t)
		redis.Server().SetPreHook(func(peer *server.Peer, command string, _ ...string) bool {
			if command == "GET" {
				peer.WriteError(reply)
			}
			return command == "GET"
		})
		conn, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis.Addr()}, DisableCache: true})
		require.NoError(t, err)
		err = conn.Do(t.Context(), conn.B().Get().Key("k").Build()).Error()
		require.Error(t, err)
		assert.Equal(t, lost, ReplyLost(err), reply)
		conn.Close()
	}
}

// TestReplyLost_Errors: unless Redis has refused a call, or it was not sent, it may have run.
func TestReplyLost_Errors(t *testing.T) {
	for err, lost := range map[error]bool{
		nil: false, new(rueidis.RedisError): false, rueidis.Nil: false, rueidis.ErrNoSlot: false, errRedirected: false,
		&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}:  false,
		&net.OpError{Op: "read", Err: syscall.ECONNRESET}:      true,
		&net.OpError{Op: "write", Err: syscall.EPIPE}:          true,
		&net.OpError{Op: "remote error", Err: errors.New("x")}: true, // of TLS
		os.ErrDeadlineExceeded:                                 true, // of a ping of rueidis
		io.EOF:                                                 true,
		io.ErrUnexpectedEOF:                                    true,
		rueidis.ErrClosing:                                     true,
		errors.New("no credentials"):                           true, // of rueidis' AuthCredentialsFn
		context.Canceled:                                       true,
		context.DeadlineExceeded:                               true,
	} {
		assert.Equal(t, lost, ReplyLost(err), "%v", err)
		if err != nil {
			assert.Equal(t, lost, ReplyLost(fmt.Errorf("wrapped: %w", err)), "%v", err)
		}
	}
}
