package httptarget

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// CheckHost returns an error for a host of a file that no request has.
func CheckHost(host string) error {
	const characters = "abcdefghijklmnopqrstuvwxyz0123456789-._"
	name := Host(host)
	if name == "" || strings.Trim(name, characters) != "" || name[0] == '.' || strings.Contains(name, "..") ||
		strings.Contains(host, ":") {
		return fmt.Errorf("the host %q, want a name as requests have it, in ASCII (xn--... for other letters), "+
			"without a port and without wildcards", host)
	}
	return nil
}

// CheckPath returns an error for a path of a file that no request has: a character of it ends the path
// of a URL, or must be escaped in it.
func CheckPath(path string) error {
	at := strings.IndexFunc(path, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '?' || r == '#' })
	if at < 0 {
		return nil
	}
	odd, _ := utf8.DecodeRuneInString(path[at:])
	return fmt.Errorf("%q in the path %q is in no request's path: leave out a query, and write %s for the character",
		odd, path, url.PathEscape(string(odd)))
}
