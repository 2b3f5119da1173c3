package rules

import (
	"net/netip"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/rratelimiter/rratelimiter/internal/door"
)

// ranges is ranges of addresses.
type ranges struct {
	list []netip.Prefix
	many *prefixes[struct{}] // the same ones, where to look at each would take long
}

// fewRanges is how many ranges are looked at one by one.
const fewRanges = 8

func newRanges(list []netip.Prefix) ranges {
	r := ranges{list: list}
	if len(list) > fewRanges {
		r.many = new(prefixes[struct{}])
		for _, p := range list {
			*r.many.at(p) = struct{}{}
		}
	}
	return r
}

// contains says whether an address is in one of the ranges.
func (r ranges) contains(addr netip.Addr) bool {
	if r.many == nil {
		return slices.ContainsFunc(r.list, func(p netip.Prefix) bool { return p.Contains(addr) })
	}
	in := false
	r.many.of(addr, func(struct{}) { in = true })
	return in
}

// prefixes keeps something for each of some ranges. To find what is kept for those of an address takes as long as they have lengths,
// however many they are.
type prefixes[T any] struct {
	lengths [2][]int // of IPv4 and of IPv6, once each
	values  map[netip.Prefix]*T
}

func family(addr netip.Addr) int {
	if addr.Is4() {
		return 0
	}
	return 1
}

// at is the place of a range.
func (p *prefixes[T]) at(network netip.Prefix) *T {
	if value := p.values[network]; value != nil {
		return value
	}
	if p.values == nil {
		p.values = make(map[netip.Prefix]*T)
	}
	if lengths := &p.lengths[family(network.Addr())]; !slices.Contains(*lengths, network.Bits()) {
		*lengths = append(*lengths, network.Bits())
	}
	value := new(T)
	p.values[network] = value
	return value
}

// of gives what is kept for the ranges that an address is in.
func (p *prefixes[T]) of(addr netip.Addr, each func(T)) {
	for _, bits := range p.lengths[family(addr)] {
		network, err := addr.Prefix(bits)
		if err != nil {
			return // there is no address
		}
		if value := p.values[network]; value != nil {
			each(*value)
		}
	}
}

// ranges reads ranges of addresses.
func (d *decoder) ranges(n *yaml.Node) []netip.Prefix {
	var all []netip.Prefix
	d.texts(n, "a text, a range of addresses like 10.0.0.0/8 or 2001:db8::/32", func(n *yaml.Node, text string) {
		network, err := netip.ParsePrefix(text)
		if addr, alone := netip.ParseAddr(text); alone == nil && addr.Zone() == "" {
			addr = addr.Unmap()
			network, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			d.fail(n, "%q is no range of addresses, want one like 10.0.0.0/8 or 2001:db8::/32", clipped(text))
			return
		}
		if network != network.Masked() {
			d.fail(n, "%q has bits behind its length: did you mean %v, or %v/%d?", text, network.Masked(), network.Addr(), network.Addr().BitLen())
			return
		}
		if network.Addr().Is4In6() {
			if network.Bits() < 96 {
				d.fail(n, "%q is mapped IPv4 and IPv6 at once", text)
				return
			}
			network = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
		}
		all = append(all, network)
	})
	return all
}

// clientRanges reads ranges of clients' addresses.
func (d *decoder) clientRanges(n *yaml.Node) ranges {
	list := d.ranges(n)
	for _, network := range list {
		if door.IsTranslation(network) {
			d.fail(n, "%v has no clients: they are known by the IPv4 addresses that it stands for", network)
		}
	}
	return newRanges(list)
}
