package main

import (
	"cmp"
	"net/http"
	"path"
	"slices"
	"strings"
)

// routes is the paths that have limits of their own, the longest first. Requests are counted by route and never by their path: a
// client that makes up paths would have a fresh limit for each.
type routes []string

// elsewhere is the route of what no other has.
const elsewhere = "/"

func newRoutes(paths []string) routes {
	rs := routes{elsewhere}
	for _, p := range paths {
		rs = append(rs, path.Clean(p))
	}
	slices.SortFunc(rs, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(rs)
}

// of is the route of a request: the longest path that the request's is, or is below. Paths are compared as an upstream may
// read them: decoded, so that %2F is a slash and %2E a dot, without dots, double slashes and parameters behind a semicolon,
// and with backslashes as slashes. Else /x/..%2flogin would be /login without its limit.
func (rs routes) of(r *http.Request) string {
	parts := strings.Split(strings.ReplaceAll(r.URL.Path, `\`, "/"), "/")
	for i, part := range parts {
		parts[i], _, _ = strings.Cut(part, ";")
	}
	p := path.Clean("/" + strings.Join(parts, "/"))
	for _, route := range rs {
		if below, ok := strings.CutPrefix(p, route); ok && (below == "" || below[0] == '/') {
			return route
		}
	}
	return elsewhere
}

// key is the route as a httplimit.Key.
func (rs routes) key(r *http.Request) (string, error) { return rs.of(r), nil }
