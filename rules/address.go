package rules

import (
	"net/netip"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// clientRanges decodes ranges of clients' addresses.
func (d *decoder) clientRanges(n *rulefile.Node) []netip.Prefix {
	list := d.Ranges(n)
	for _, network := range list {
		if guard.IsTranslation(network) {
			d.Fail(n, "%v has no clients: they are known by the IPv4 addresses that it stands for", network)
		}
	}
	return list
}
