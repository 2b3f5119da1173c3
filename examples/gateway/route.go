package main

import (
	"cmp"
	"net/http"
	"path"
	"slices"
	"strings"
)

// routes are the paths with limits of their own, the longest first. Requests count by route, never by
// path: a client could invent paths to get a fresh limit for each.
type routes []string

// elsewhere is the route of all other paths.
const elsewhere = "/"

func newRoutes(paths []string) routes {
	rs := routes{elsewhere}
	for _, p := range paths {
		rs = append(rs, path.Clean(p))
	}
	slices.SortFunc(rs, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(rs)
}

// of returns the route of a request: the longest route that is the request's path or a parent of it.
// Paths are compared as an upstream may read them: unescaped, without dot segments, empty segments and
// parameters, and with backslashes as slashes. Otherwise /x/..%2flogin would evade the limit of /login.
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

// key is an httplimit.Key that returns the route.
func (rs routes) key(r *http.Request) (string, error) { return rs.of(r), nil }
