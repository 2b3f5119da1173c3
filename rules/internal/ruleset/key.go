package ruleset

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/guard/identity"
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// key is the key of a rule. Requests with equal keys count together. No parts is one limit for all
// requests.
type key struct {
	at    *rulefile.Node // nil if the file states none
	parts []keyPart
}

func (k *key) UnmarshalNode(d *rulefile.Decoder, n *rulefile.Node) {
	*k = key{n, rulefile.ListOf[keyPart](d, n)}
	if slices.ContainsFunc(k.parts, func(p keyPart) bool { return p.kind == partAll }) {
		if len(k.parts) > 1 {
			d.Fail(n, "all is one limit for all requests: remove the other parts")
		}
		k.parts = nil
	}
}

type keyPart struct {
	kind partKind
	name string // of the header or the wildcard, the constant, or the text of a cookie or query
}

// partKind is what a part of a key is, as files name it.
type partKind string

const (
	partAll          partKind = "all" // no part: one limit for all requests
	partIP           partKind = "ip"
	partHeader       partKind = "header"
	partHashedHeader partKind = "hashed_header"
	partCookie       partKind = "cookie"
	partQuery        partKind = "query"
	partPath         partKind = "path" // a wildcard of the path
	partMethod       partKind = "method"
	partConstant     partKind = "constant"
)

func (*keyPart) Want() string {
	return "a text: ip, header:NAME, hashed_header:NAME, cookie:NAME, query:NAME, path:WILDCARD, method, " +
		"constant:TEXT or all"
}

func (p *keyPart) UnmarshalText(text []byte) error {
	kind, name, named := strings.Cut(string(text), ":")
	p.kind, p.name = partKind(kind), name
	switch p.kind {
	case partAll, partIP, partMethod:
		if named {
			return fmt.Errorf("%q, want %s", rulefile.Clip(string(text)), p.Want())
		}
	case partHeader, partHashedHeader:
		var header headerName
		err := header.UnmarshalText([]byte(name))
		p.name = string(header)
		return err
	case partCookie, partQuery, partPath, partConstant:
		if p.name == "" || p.kind == partCookie && !isToken(p.name) {
			return fmt.Errorf("%q has no name, want %s", rulefile.Clip(string(text)), p.Want())
		}
		if p.kind == partCookie || p.kind == partQuery {
			p.name = string(text)
		}
	default:
		return fmt.Errorf("no key %q, want %s", rulefile.Clip(string(text)), p.Want())
	}
	return nil
}

// overrideKey decodes the key of an override into the form of requests' keys.
func (d *decoder) overrideKey(n *rulefile.Node, parts []keyPart, conditions []*condition) (string, bool) {
	var texts []string
	before := len(d.Problems)
	d.Texts(n, "a text, the key of a request", func(n *rulefile.Node, text string) {
		if i := len(texts); i < len(parts) {
			text = d.overridePart(n, text, parts[i], conditions)
		}
		texts = append(texts, text)
	})
	if len(d.Problems) > before {
		return "", false
	}
	if len(texts) != len(parts) {
		d.Fail(n, "%d parts, want %d, as the rule's key has", len(texts), len(parts))
		return "", false
	}
	if len(texts) == 1 {
		return texts[0], true
	}
	return identity.Join(texts...), true
}

// overridePart decodes a part of an override's key. It reports a key that no request has.
func (d *decoder) overridePart(n *rulefile.Node, text string, part keyPart, conditions []*condition) string {
	switch part.kind {
	case partIP:
		return d.addressKey(n, text)
	case partHeader, partHashedHeader, partCookie:
		d.headerValue(n, text, headerName(part.name))
		if !headerName(part.name).isBinary() {
			var clear bool
			if text, _, clear = plainValue(part.name, text); !clear {
				d.Fail(n, "%q is no key: servers read it in several ways, and requests with it are refused", rulefile.Clip(text))
			}
		}
		if part.kind != partHeader {
			return identity.Hash(text)
		}
	case partQuery:
		return identity.Hash(text)
	case partPath:
		isRest := func(c *condition) bool { return c.rest == part.name }
		if hasSlash(text) && !d.allowSlashes && !slices.ContainsFunc(conditions, isRest) {
			d.Fail(n, "%q is no key: a request with a slash in {%s} is refused", rulefile.Clip(text), part.name)
		}
	case partMethod:
		if httptarget.MethodKey(text) != text && text[0] != '/' {
			d.Fail(n, "%q is no key of a method, want one like POST, %s for all that net/http has no name for, "+
				"or one of gRPC like /shop.Orders/Create", rulefile.Clip(text), httptarget.OtherMethods)
		}
	case partConstant:
		if text != part.name {
			d.Fail(n, "%q, want %q, the constant of the rule's key", rulefile.Clip(text), rulefile.Clip(part.name))
		}
	}
	return text
}

// addressKey returns the key of an address, which may be written as the network that counts as one
// client.
func (d *decoder) addressKey(n *rulefile.Node, text string) string {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			d.Fail(n, "%q is no address", rulefile.Clip(text))
			return ""
		}
		addr = network.Addr()
		if key := d.keyOfAddress(addr); key != network.Masked().String() {
			d.Fail(n, "clients of %v do not count as one: give one address, or a rule of its own with match: {ranges: %v}",
				network, network)
		}
	}
	return d.keyOfAddress(addr)
}

func (d *decoder) keyOfAddress(addr netip.Addr) string {
	key, err := identity.AddressKey(identity.Client(addr), d.address.IPv4Bits, d.address.IPv6Bits)
	if err != nil {
		return "" // the address settings are wrong, and reported
	}
	return key
}

// keyOf returns the key of a request that meets a condition, and whether all its parts were sent in
// this spelling.
func keyOf(parts []keyPart, r *Request, segments []string, c *condition) (key string, exact bool, err error) {
	if len(parts) == 1 {
		if key, exact, err = parts[0].textOf(r, segments, c); err != nil {
			return "", false, err
		}
		return key, exact, nil
	}
	texts := make([]string, len(parts))
	exact = true
	for i, p := range parts {
		var as bool
		if texts[i], as, err = p.textOf(r, segments, c); err != nil {
			return "", false, err
		}
		exact = exact && as
	}
	return identity.Join(texts...), exact, nil
}

// textOf returns the part of a request's key, and whether it was sent in this spelling.
func (p keyPart) textOf(r *Request, segments []string, c *condition) (text string, exact bool, err error) {
	switch p.kind {
	case partIP:
		client, err := r.Client()
		if err == nil {
			text, err = identity.AddressKey(client, r.Address.IPv4Bits, r.Address.IPv6Bits)
		}
		return text, true, err
	case partHeader:
		return r.valuesOf(p.name).key("header " + p.name)
	case partHashedHeader:
		text, exact, err = r.valuesOf(p.name).key("header " + p.name)
		return identity.Hash(text), exact, err
	case partCookie, partQuery: // which are often secrets
		text, exact, err = r.valuesOf(p.name).key(strings.Replace(p.name, ":", " ", 1))
		return identity.Hash(text), exact, err
	case partPath:
		if text = c.wildcard(segments, p.name); text == "" && p.name != c.rest {
			err = errNoValue
		}
		return text, true, err
	case partMethod:
		text, exact = r.methodKey()
		return text, exact, nil
	case partConstant:
		return p.name, true, nil
	}
	panic("rules: no key " + string(p.kind))
}
