package target

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// Errors of paths that servers interpret in too many ways.
var (
	errNotClean = errors.New("the path has a dot segment, or an escape that is not valid")
	errSlash    = errors.New("the path has an escaped slash or a backslash")
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

// ReadPath returns the interpretations of an escaped path. A dot segment is an error, in any encoding.
//
// An escaped slash or a backslash is an error too, unless allowSlashes is set. Then the path has
// interpretations with and without those slashes, none of which may have a dot segment.
func ReadPath(path string, allowSlashes bool) (Path, error) {
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
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
		if !hasValidEscapes(segment) || isDots(withoutParameters(segment)) {
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
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}

// bareSegments removes the parameters of all segments.
func bareSegments(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		segments[i] = withoutParameters(segment)
	}
	return strings.Join(segments, "/")
}

// withoutParameters cuts a segment at its first semicolon, escaped or not, since a proxy may unescape
// it before the server.
func withoutParameters(segment string) string {
	for i := range len(segment) {
		if segment[i] == ';' || segment[i] == '%' && escaped(segment[i:]) == ';' {
			return segment[:i]
		}
	}
	return segment
}

// isDots reports whether a segment is "." or "..".
func isDots(segment string) bool {
	dots := 0
	for ; segment != "" && dots < 3; dots++ {
		switch {
		case segment[0] == '.':
			segment = segment[1:]
		case escaped(segment) == '.':
			segment = segment[3:]
		default:
			return false
		}
	}
	return dots == 1 || dots == 2
}

// hasSlash reports whether a segment has a slash or a backslash.
func hasSlash(segment string) bool {
	for i := range len(segment) {
		if c := escaped(segment[i:]); segment[i] == '\\' || c == '/' || c == '\\' {
			return true
		}
	}
	return false
}

func hasValidEscapes(segment string) bool {
	for i := range len(segment) {
		if segment[i] == '%' && !isEscape(segment[i:]) {
			return false
		}
	}
	return true
}

// isEscape reports whether a text begins with an escape.
func isEscape(text string) bool {
	return len(text) >= 3 && text[0] == '%' && hex(text[1]) >= 0 && hex(text[2]) >= 0
}

// escaped returns the byte of the escape at the beginning of a text, or 0.
func escaped(text string) byte {
	if !isEscape(text) {
		return 0
	}
	return byte(hex(text[1])<<4 | hex(text[2]))
}

// hex returns the value of a hexadecimal digit, or -1.
func hex(c byte) int {
	at := strings.IndexByte("0123456789abcdefABCDEF", c)
	if at >= 16 {
		at -= 6
	}
	return at
}

// Unescape returns a path without escapes. Escaped slashes and backslashes stay escaped, in capitals.
func Unescape(path string) string {
	if strings.IndexByte(path, '%') < 0 {
		return path
	}
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		switch c := escaped(path[i:]); {
		case c == '/' || c == '\\':
			b.WriteString(strings.ToUpper(path[i : i+3]))
		case isEscape(path[i:]):
			b.WriteByte(c)
		default:
			b.WriteByte(path[i])
			continue
		}
		i += 2
	}
	return b.String()
}
