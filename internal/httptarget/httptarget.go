// Package httptarget interprets the parts of a request by which rules match and choose keys. Package rules uses it,
// so that every spelling of a request meets the same limits, whichever server behind it reads the request.
//
//	httptarget.go  methods, hosts and paths: one form for all spellings
//	field.go       header fields, which a proxy may add, remove or rename, and the values that clients send
package httptarget

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// HasMethod reports whether a request's method matches the wanted one. GET includes HEAD, as in
// net/http.
func HasMethod(wanted, method string) bool {
	return wanted == method || wanted == http.MethodGet && method == http.MethodHead
}

// OtherMethods is the key of methods that net/http does not define. A client can invent any number of
// them.
const OtherMethods = "other"

// MethodKey returns the method under which a request counts. HEAD counts as GET.
func MethodKey(method string) string {
	switch method {
	case http.MethodHead:
		return http.MethodGet
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect,
		http.MethodOptions, http.MethodTrace:
		return method
	}
	return OtherMethods
}

// MaxLength is the largest number of bytes of a path, and of a value that a client chooses for a key.
// net/http accepts a MB, which would cost every rule that reads it. Most servers and proxies accept 8 KB.
const MaxLength = 8 << 10

// Host returns a host in lower case, without its port and without final dots.
func Host(host string) string {
	return strings.ToLower(strings.TrimRight(WithoutPort(host), "."))
}

// WithoutPort returns a host as it was sent, without its port.
func WithoutPort(host string) string {
	if strings.HasPrefix(host, "[") { // an IPv6 address
		if end := strings.IndexByte(host, ']'); end > 0 {
			host = host[:end+1]
		}
	} else if at := strings.IndexByte(host, ':'); at >= 0 {
		host = host[:at]
	}
	return host
}

// IsHost reports whether a text is a host, with or without a port.
func IsHost(host string) bool {
	name := WithoutPort(host)
	port, found := strings.CutPrefix(host[len(name):], ":")
	if name == "" || name[0] == '[' && !strings.HasSuffix(name, "]") {
		return false
	}
	return !found && port == "" || found && port != "" && strings.Trim(port, "0123456789") == ""
}

// Errors of paths that servers interpret in too many ways.
var (
	errNotClean = errors.New("the path has a dot segment, or an escape that is not valid")
	errSlash    = errors.New("the path has an escaped slash or a backslash")
	errTooLong  = fmt.Errorf("the path is longer than %d bytes", MaxLength)
)

// Path is the path of a request in all interpretations of servers. Each begins with a slash and is
// escaped. Most paths have one interpretation.
type Path struct {
	Text   string   // as sent
	Others []string // with other slashes, without empty segments, and without ";" parameters
}

// All calls f with each interpretation until f returns false. It reports whether f never did.
func (p Path) All(f func(path string) bool) bool {
	return f(p.Text) && !slices.ContainsFunc(p.Others, func(other string) bool { return !f(other) })
}

// ReadPath returns the interpretations of an escaped path. A dot segment is an error, in any encoding,
// and so is a path of more than MaxLength bytes.
//
// An escaped slash or a backslash is an error too, unless allowSlashes is set. Then the path has
// interpretations with and without those slashes, none of which may have a dot segment.
func ReadPath(path string, allowSlashes bool) (Path, error) {
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	if len(path) > MaxLength {
		return Path{Text: "/"}, errTooLong
	}
	p := Path{Text: path}
	if isPlain(path) {
		return p, nil
	}
	ways := []string{path}
	if hasSlash(path) {
		if !allowSlashes {
			return p, errSlash
		}
		ways = append(ways, escapedSlash.Replace(path), anySlash.Replace(path))
	}
	for _, way := range ways {
		if !isClean(way) {
			return p, errNotClean
		}
		bare := bareSegments(way)
		for _, other := range []string{way, merged(way), bare, merged(bare)} {
			if other != path && !slices.Contains(p.Others, other) {
				p.Others = append(p.Others, other)
			}
		}
	}
	return p, nil
}

// ReadURL returns the interpretations of the path of a URL. If RawPath is not a valid escaping of
// Path, it returns those of both, since some routers use one and some the other.
func ReadURL(u *url.URL, allowSlashes bool) (Path, error) {
	if len(u.Path) > MaxLength || len(u.RawPath) > MaxLength {
		return Path{Text: "/"}, errTooLong
	}
	path := u.EscapedPath()
	p, err := ReadPath(path, allowSlashes)
	if err != nil || u.RawPath == "" || u.RawPath == path {
		return p, err
	}
	raw, err := ReadPath(u.RawPath, allowSlashes)
	raw.All(func(other string) bool {
		if other != p.Text && !slices.Contains(p.Others, other) {
			p.Others = append(p.Others, other)
		}
		return true
	})
	return p, err
}

var (
	escapedSlash = strings.NewReplacer("%2F", "/", "%2f", "/")
	anySlash     = strings.NewReplacer("%2F", "/", "%2f", "/", "%5C", "/", "%5c", "/", `\`, "/")
)

// isClean reports whether a path has no dot segment and no invalid escape.
func isClean(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		text, err := url.PathUnescape(segment)
		name, _, _ := strings.Cut(text, ";")
		if err != nil || name == "." || name == ".." {
			return false
		}
	}
	return true
}

// isPlain reports whether a path certainly has one interpretation.
func isPlain(path string) bool {
	return strings.IndexByte(path, '%') < 0 && strings.IndexByte(path, ';') < 0 && strings.IndexByte(path, '\\') < 0 &&
		!strings.Contains(path, "//") && !strings.Contains(path, "/.")
}

// merged removes the empty segments of a path, except the last one.
func merged(path string) string {
	var b strings.Builder
	b.Grow(len(path))
	for i := range len(path) {
		if path[i] != '/' || i == 0 || path[i-1] != '/' {
			b.WriteByte(path[i])
		}
	}
	return b.String()
}

// bareSegments cuts all segments at their first semicolon, escaped or not, since a proxy may unescape
// it before the server.
func bareSegments(path string) string {
	var b strings.Builder
	b.Grow(len(path))
	for segment := range strings.SplitAfterSeq(path, "/") {
		text, slash := strings.CutSuffix(segment, "/")
		for _, semicolon := range []string{";", "%3B", "%3b"} {
			text, _, _ = strings.Cut(text, semicolon)
		}
		b.WriteString(text)
		if slash {
			b.WriteByte('/')
		}
	}
	return b.String()
}

// hasSlash reports whether a path has an escaped slash or a backslash.
func hasSlash(path string) bool { return anySlash.Replace(path) != path }

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
	if len(path) > MaxLength {
		return errTooLong
	}
	at := strings.IndexFunc(path, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '?' || r == '#' })
	if at < 0 {
		return nil
	}
	odd, _ := utf8.DecodeRuneInString(path[at:])
	return fmt.Errorf("%q in the path %q is in no request's path: leave out a query, and write %s for the character",
		odd, path, url.PathEscape(string(odd)))
}

// Exempt reports whether a full method of gRPC, as "/grpc.health.v1.Health/Check", is limited only on
// demand: health checks and reflection.
func Exempt(method string) bool {
	service := strings.TrimPrefix(method, "/")
	service = service[:max(0, strings.LastIndexByte(service, '/'))]
	return service == "grpc.health.v1.Health" ||
		strings.HasPrefix(service, "grpc.reflection.") && strings.HasSuffix(service, ".ServerReflection")
}
