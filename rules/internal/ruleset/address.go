package ruleset

import (
	"net/netip"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// clientRanges are ranges of clients' addresses.
type clientRanges []netip.Prefix

// UnmarshalNode decodes ranges, and reports those that have no clients.
func (r *clientRanges) UnmarshalNode(d *rulefile.Decoder, n *rulefile.Node) {
	var all rulefile.Ranges
	d.Value(n, &all)
	*r = clientRanges(all)
	for _, network := range all {
		if guard.IsTranslation(network) {
			d.Fail(n, "%v has no clients: they are known by the IPv4 addresses that it stands for", network)
		}
	}
}
