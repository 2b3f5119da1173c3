package rules

import (
	"net/netip"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// ranges decodes ranges of addresses.
func (d *decoder) ranges(n *rulefile.Node) []netip.Prefix {
	var all []netip.Prefix
	d.Texts(n, "a text, a range of addresses like 10.0.0.0/8 or 2001:db8::/32", func(n *rulefile.Node, text string) {
		network, err := netip.ParsePrefix(text)
		if addr, alone := netip.ParseAddr(text); alone == nil && addr.Zone() == "" {
			addr = addr.Unmap()
			network, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			d.Fail(n, "%q is no range of addresses, want one like 10.0.0.0/8 or 2001:db8::/32", rulefile.Clip(text))
			return
		}
		if network != network.Masked() {
			d.Fail(n, "%q has bits behind its length: did you mean %v, or %v/%d?", text, network.Masked(), network.Addr(),
				network.Addr().BitLen())
			return
		}
		if network.Addr().Is4In6() && network.Bits() < 96 {
			d.Fail(n, "%q is mapped IPv4 and IPv6 at once", text)
			return
		}
		all = append(all, network)
	})
	return all
}

// clientRanges decodes ranges of clients' addresses.
func (d *decoder) clientRanges(n *rulefile.Node) []netip.Prefix {
	list := d.ranges(n)
	for _, network := range list {
		if guard.IsTranslation(network) {
			d.Fail(n, "%v has no clients: they are known by the IPv4 addresses that it stands for", network)
		}
	}
	return list
}
