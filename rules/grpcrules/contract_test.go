package grpcrules

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/rules/internal/rulestest"
)

func TestServerInterceptors_OddCalls_GetNoMoreThanPlainOnes(t *testing.T) {
	for name, door := range doors {
		t.Run(name, func(t *testing.T) {
			guardtest.TestChoices(t, []string{guardtest.ByHeader, guardtest.ByBinary, guardtest.ByClient, guardtest.ByRPC},
				func(client *rratelimiter.Client, by string) func(guardtest.Choice) bool {
					call := door(parsed(t, rulestest.Contract(by)), client)
					return func(c guardtest.Choice) bool {
						md := make(metadata.MD)
						for _, h := range c.Headers {
							md.Append(h[0], h[1])
						}
						ctx := metadata.NewIncomingContext(context.Background(), md)
						from := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.Peer))
						return call(peer.NewContext(ctx, &peer.Peer{Addr: from}), c.RPC) == nil
					}
				})
		})
	}
}
