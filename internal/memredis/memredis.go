// Package memredis connects to a Redis in memory over pipes. They need no port. Goroutines that
// wait for a reply are durably blocked in the sense of testing/synctest.
package memredis

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/redis/rueidis"
)

// noPings keeps rueidis from a ping per second: a test may advance a fake clock by months.
const noPings = -time.Second

// Connect returns a client whose connections come from dial: Dial of a miniredis.Miniredis, or a
// function that wraps it.
func Connect(dial func() (net.Conn, error)) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{"in-memory"},
		ForceSingleClient: true,
		DisableCache:      true,
		PipelineMultiplex: -1, // one connection, so that calls in flight arrive in order
		Dialer:            net.Dialer{KeepAlive: noPings},
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			return dial()
		},
	})
}
