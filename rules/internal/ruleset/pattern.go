package ruleset

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/httptarget"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// pattern is a pattern of net/http's ServeMux, such as "GET api.example.com/users/{id}": a method,
// a host and a path. Method and host are optional, and GET includes HEAD. A wildcard is {name} for
// a segment, {name...} for the rest, or {$} for the end after a slash. A path that ends in a slash
// matches all paths that begin with it. Unlike those of a ServeMux, patterns may overlap in any
// way.
type pattern struct {
	method   string
	host     string
	segments []string       // unescaped; "" for a wildcard
	end      ending         // what follows the segments
	wild     map[string]int // the segment of each wildcard
	rest     string         // the name of a {name...} wildcard; "" for none
}

type ending int

const (
	endHere  ending = iota // nothing
	endSlash               // a slash
	endRest                // a slash and any rest
)

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
	if p.host = httptarget.Host(host); host != "" {
		if err := httptarget.CheckHost(host); err != nil {
			return p, err
		}
	}
	if err := httptarget.CheckPath(rest); err != nil {
		return p, err
	}
	if strings.Contains(rest, "//") {
		return p, fmt.Errorf("the path %q has an empty segment: write one slash", rulefile.Clip(rest))
	}
	if _, err := httptarget.ReadPath(rest, true); err != nil {
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
			return fmt.Errorf("the wildcard %q, want a name of letters, digits and underscores, or {$} at the end",
				rulefile.Clip(segment))
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

func isIdentifier(name string) bool {
	const characters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"
	return name != "" && strings.Trim(name, characters) == "" && (name[0] < '0' || name[0] > '9')
}

// wildcard returns the value of a wildcard in a path that the pattern matches.
func (p *pattern) wildcard(segments []string, name string) string {
	at, ok := p.wild[name]
	if !ok || at >= len(segments) {
		return ""
	}
	if name == p.rest {
		return strings.Join(segments[at:], "/")
	}
	return segments[at]
}

// segmentsOf returns the segments of a path, unescaped as by a ServeMux. If the path ends in a slash, the
// last one is empty.
func segmentsOf(path string) []string {
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, segment := range segments {
		if text, err := url.PathUnescape(segment); err == nil {
			segments[i] = text
		}
	}
	return segments
}

func (p *pattern) matches(hosts, segments []string) bool {
	return (p.host == "" || slices.Contains(hosts, p.host)) && p.hasPath(segments)
}

func (p *pattern) hasPath(segments []string) bool {
	extra := len(segments) - len(p.segments)
	if extra < 0 {
		return false
	}
	for i, want := range slices.Backward(p.segments) { // paths differ most at their ends
		if want != segments[i] && want != "" {
			return false
		}
	}
	switch p.end {
	case endSlash:
		return extra == 1 && segments[len(p.segments)] == ""
	case endRest:
		return extra > 0
	}
	return extra == 0 && segments[len(segments)-1] != "" // a wildcard matches no empty segment
}

func (p *pattern) hasMethod(method string) bool {
	return p.method == "" || httptarget.HasMethod(p.method, method)
}

// hasSlash reports whether an unescaped segment has a slash or a backslash.
func hasSlash(segment string) bool { return strings.ContainsAny(segment, `/\`) }

// anyOf reports whether a pattern matches all paths, without a wildcard.
func (p *pattern) anyOf() bool { return len(p.segments) == 0 && p.end == endRest && p.rest == "" }
