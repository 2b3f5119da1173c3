package rulefile

import (
	"fmt"
	"net/netip"
)

// Range is a range of addresses. An address alone is the range that has only it.
type Range struct{ netip.Prefix }

const wantRange = "one like 10.0.0.0/8 or 2001:db8::/32"

// UnmarshalText decodes a range, or an address.
func (r *Range) UnmarshalText(text []byte) (err error) {
	if addr, alone := netip.ParseAddr(string(text)); alone == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		r.Prefix = netip.PrefixFrom(addr, addr.BitLen())
		return nil
	}
	r.Prefix, err = netip.ParsePrefix(string(text))
	switch {
	case err != nil:
		return fmt.Errorf("%q is no range of addresses, want %s", Clip(string(text)), wantRange)
	case r.Prefix != r.Masked():
		return fmt.Errorf("%q has bits behind its length: did you mean %v, or %v/%d?",
			text, r.Masked(), r.Addr(), r.Addr().BitLen())
	}
	return nil
}

// Ranges decodes a range of addresses, or a list of them.
func (d *Decoder) Ranges(n *Node) (all []netip.Prefix) {
	d.Texts(n, "a text, a range of addresses like 10.0.0.0/8 or 2001:db8::/32", func(n *Node, text string) {
		var r Range
		if err := r.UnmarshalText([]byte(text)); err != nil {
			d.Fail(n, "%v", err)
			return
		}
		all = append(all, r.Prefix)
	})
	return all
}
