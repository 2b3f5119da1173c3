package rules

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"github.com/rratelimiter/rratelimiter/internal/target"
)

// pattern is a pattern of net/http's ServeMux, as "GET api.example.com/users/{id}": a method (GET is HEAD too), a host and a path, of
// which the first two may be left out. Wildcards are {name} for a segment, {name...} for all that is left and {$} for the end behind
// a slash; a path that ends in a slash matches all that begins with it. Patterns may overlap as they like.
type pattern struct {
	method   string
	host     string
	segments []string       // literal ones, unescaped; "" for a wildcard
	end      ending         // what comes behind the segments
	wild     map[string]int // the segment of each wildcard
	rest     string         // the wildcard of all that is left; "" for none
}

type ending int

const (
	endHere  ending = iota // nothing
	endSlash               // a slash
	endRest                // a slash and whatever
)

// parsePattern reads a pattern, or returns what is wrong with it.
func parsePattern(text string) (p pattern, err error) {
	method, rest, found := strings.Cut(text, " ")
	if found {
		rest = strings.TrimLeft(rest, " \t")
		if !isToken(method) {
			return p, fmt.Errorf("%q is no method", rulefile.Clip(method))
		}
		if method != strings.ToUpper(method) {
			return p, fmt.Errorf("the method %q matches no request: write %s", method, strings.ToUpper(method))
		}
		p.method = method
	} else {
		rest = text
	}
	slash := strings.IndexByte(rest, '/')
	if slash < 0 {
		return p, errors.New("it has no path: write a slash behind the host, or in front of the path")
	}
	host, rest := rest[:slash], rest[slash:]
	if p.host = target.Host(host); host != "" && !isHost(p.host) || strings.Contains(host, ":") {
		return p, fmt.Errorf("the host %q, want a name as requests have it, in ASCII (xn--... for other letters), without a port and without wildcards", rulefile.Clip(host))
	}
	if at := strings.IndexFunc(rest, isOutsidePaths); at >= 0 {
		odd, _ := utf8.DecodeRuneInString(rest[at:])
		return p, fmt.Errorf("%q in the path %q stands in no request's path: leave out a query, and write %s for the character", odd, rulefile.Clip(rest), url.PathEscape(string(odd)))
	}
	if strings.Contains(rest, "//") {
		return p, fmt.Errorf("the path %q has an empty segment: write one slash", rulefile.Clip(rest))
	}
	if _, err := target.ReadPath(rest, true); err != nil {
		return p, fmt.Errorf("%w: requests for %q are refused", err, rulefile.Clip(rest))
	}
	return p, p.parsePath(rest[1:])
}

func (p *pattern) parsePath(rest string) error {
	p.segments = make([]string, 0, strings.Count(rest, "/")+1)
	for more := true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		if segment == "" && !more {
			p.end = endRest
			return nil
		}
		name, opened := strings.CutPrefix(segment, "{")
		name, closed := strings.CutSuffix(name, "}")
		if opened != closed || !opened && strings.ContainsAny(segment, "{}") {
			return fmt.Errorf("the segment %q, want a wildcard as a whole segment, as /{id}/", rulefile.Clip(segment))
		}
		switch {
		case !opened:
			text, err := url.PathUnescape(segment)
			if err != nil {
				return fmt.Errorf("the segment %q is not escaped as in a URL", rulefile.Clip(segment))
			}
			p.segments = append(p.segments, text)
			continue
		case name == "$" && !more:
			p.end = endSlash
			return nil
		}
		name, toEnd := strings.CutSuffix(name, "...")
		if !isIdentifier(name) {
			return fmt.Errorf("the wildcard %q, want a name of letters, digits and underscores, or {$} at the end", rulefile.Clip(segment))
		}
		if _, twice := p.wild[name]; twice {
			return fmt.Errorf("the wildcard {%s} is there twice", rulefile.Clip(name))
		}
		if toEnd && more {
			return fmt.Errorf("%s is not at the end", rulefile.Clip(segment))
		}
		if p.wild == nil {
			p.wild = make(map[string]int)
		}
		p.wild[name] = len(p.segments)
		if toEnd {
			p.end, p.rest = endRest, name
			return nil
		}
		p.segments = append(p.segments, "")
	}
	return nil
}

// isHost reports whether a name, in lower case, can be that of a request's host.
func isHost(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-._") == "" && name[0] != '.' && !strings.Contains(name, "..")
}

// isOutsidePaths reports whether a character ends the path of a URL, or has to be escaped in it.
func isOutsidePaths(r rune) bool { return r <= ' ' || r == 0x7f || r == '?' || r == '#' }

func isIdentifier(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == "" && (name[0] < '0' || name[0] > '9')
}

// hasWildcard reports whether a pattern has a wildcard of a name.
func (p *pattern) hasWildcard(name string) bool {
	_, ok := p.wild[name]
	return ok
}

// wildcard is what a wildcard stands for in a path that the pattern matches.
func (p *pattern) wildcard(path, name string) string {
	at, ok := p.wild[name]
	if !ok {
		return ""
	}
	for range at {
		next := strings.IndexByte(path[1:], '/')
		if next < 0 {
			return ""
		}
		path = path[next+1:]
	}
	if name == p.rest {
		return unescaped(path[1:])
	}
	segment, _, _ := strings.Cut(path[1:], "/")
	return unescaped(segment)
}

// segmentsOf returns the segments of a path without escapes. The last one of a path that ends in a slash is empty.
func segmentsOf(path string) []string {
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, segment := range segments {
		segments[i] = unescaped(segment)
	}
	return segments
}

// matches reports whether a request's host and path are those of a pattern.
func (p *pattern) matches(host string, segments []string) bool {
	return (p.host == "" || p.host == host) && p.hasPath(segments)
}

// hasPath reports whether a path is one of a pattern.
func (p *pattern) hasPath(segments []string) bool {
	behind := len(segments) - len(p.segments)
	if behind < 0 {
		return false
	}
	for i, want := range p.segments {
		if want != segments[i] && want != "" {
			return false
		}
	}
	switch p.end {
	case endSlash:
		return behind == 1 && segments[len(p.segments)] == ""
	case endRest:
		return behind > 0
	}
	return behind == 0 && segments[len(segments)-1] != "" // a wildcard stands for no empty segment
}

// hasMethod reports whether requests of a method are the pattern's.
func (p *pattern) hasMethod(method string) bool {
	return p.method == "" || target.HasMethod(p.method, method)
}

// unescaped is a segment of a path as a ServeMux compares it.
func unescaped(segment string) string {
	if strings.IndexByte(segment, '%') < 0 {
		return segment
	}
	text, err := url.PathUnescape(segment)
	if err != nil {
		return segment
	}
	return text
}

// hasSlash reports whether a segment without escapes has a slash or a backslash.
func hasSlash(segment string) bool { return strings.ContainsAny(segment, `/\`) }

// anyOf reports whether a pattern is for all paths, and names no part of them.
func (p *pattern) anyOf() bool { return len(p.segments) == 0 && p.end == endRest && p.rest == "" }
