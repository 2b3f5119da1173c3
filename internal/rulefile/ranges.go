package rulefile

import (
	"fmt"
	"net/netip"
)

// Range is a range of addresses. An address alone is the range that has only it.
type Range struct{ netip.Prefix }

const wantRange = "one like 10.0.0.0/8 or 2001:db8::/32"

// Want describes a range.
func (*Range) Want() string { return "a text, a range of addresses like 10.0.0.0/8 or 2001:db8::/32" }

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
