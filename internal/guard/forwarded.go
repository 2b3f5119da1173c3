package guard

import (
	"errors"
	"net/netip"
	"strings"
)

// The header Forwarded of RFC 7239 has elements separated by commas, each of pairs separated by
// semicolons: for="[2001:db8::1]:4711";proto=https. Values may be quoted strings, which may contain
// commas, semicolons and escaped quotes.

// lastElement splits the last element off a list. It reads from the right, so that a client's text
// at the left, such as an open quote, does not change the proxy's text behind it.
func lastElement(list string) (last, rest string, more bool) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch {
		case list[i] == '"' && !inQuotedPair(list, i):
			quoted = !quoted
		case list[i] == ',' && !quoted:
			return list[i+1:], list[:i], true
		}
	}
	return list, "", false
}

// inQuotedPair reports whether an odd number of backslashes precedes a byte of a quoted string.
func inQuotedPair(text string, i int) bool {
	n := 0
	for ; i-n > 0 && text[i-n-1] == '\\'; n++ {
	}
	return n%2 == 1
}

// parseForwarded parses the address in an element's for=.
func parseForwarded(element string) (netip.Addr, error) {
	var node string
	found := false
	for rest := element; rest != ""; {
		name, value, behind, err := pair(rest)
		if err != nil {
			return netip.Addr{}, err
		}
		if strings.EqualFold(name, "for") {
			if found {
				return netip.Addr{}, errors.New("an element has for= twice")
			}
			node, found = value, true
		}
		rest = behind
	}
	if !found {
		return netip.Addr{}, errors.New("an element has no for=")
	}
	if node != strings.Trim(node, " \t") {
		return netip.Addr{}, noAddress(node)
	}
	return ParseAddr(node)
}

func pair(text string) (name, value, rest string, err error) {
	malformed := errors.New("an element is malformed")
	name, value, ok := strings.Cut(text, "=")
	if name = strings.Trim(name, " \t"); !ok || name == "" {
		return "", "", "", malformed
	}
	if !strings.HasPrefix(value, `"`) {
		value, rest, _ = strings.Cut(value, ";")
		if value = strings.TrimRight(value, " \t"); strings.ContainsAny(value, "\"\\") {
			return "", "", "", malformed
		}
		return name, value, rest, nil
	}
	var plain strings.Builder
	for i := 1; i < len(value); i++ {
		switch value[i] {
		case '\\':
			if i++; i == len(value) {
				return "", "", "", malformed
			}
			plain.WriteByte(value[i])
		case '"':
			rest = strings.Trim(value[i+1:], " \t")
			if behind, ok := strings.CutPrefix(rest, ";"); ok {
				return name, plain.String(), behind, nil
			} else if rest != "" {
				return "", "", "", malformed
			}
			return name, plain.String(), "", nil
		default:
			plain.WriteByte(value[i])
		}
	}
	return "", "", "", malformed
}
