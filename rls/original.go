package rls

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// original is the request that a proxy describes.
type original struct {
	method, host string
	paths        []string // the interpretations of its path, unescaped
	unknown      error    // why there are none
}

var errNoPath = errors.New("rls: the proxy sent no header with the path: see uri_header")

// originalOf parses a proxy's description of a request.
func (w *httpRules) originalOf(r *http.Request) *original {
	o := &original{method: r.Method, host: r.Host}
	if method := lastOf(r.Header[w.methodHeader]); method != "" {
		o.method = method
	}
	if host := lastOf(r.Header[w.hostHeader]); host != "" {
		o.host = strings.TrimSpace(host[strings.LastIndexByte(host, ',')+1:])
	}
	o.method, o.host = httptarget.Method(o.method), httptarget.Host(o.host)
	uri := lastOf(r.Header[w.uriHeader])
	if uri == "" {
		o.unknown = errNoPath
		return o
	}
	uri = pathOf(uri)
	path, err := httptarget.ReadPath(uri, w.allowSlashes)
	if err != nil || strings.Contains(uri, "#") { // "#" ends the path for some servers
		o.unknown = guard.Invalidf("rls: servers read the path %q in different ways", rulefile.Clip(uri))
		return o
	}
	path.All(func(interpretation string) bool {
		o.paths = append(o.paths, httptarget.Unescape(interpretation))
		return true
	})
	return o
}

// lastOf returns the last of a header's values, which the nearest proxy wrote.
func lastOf(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// pathOf returns the path of a request's URI, which may have a scheme and a host.
func pathOf(uri string) string {
	uri, _, _ = strings.Cut(uri, "?")
	if _, rest, absolute := strings.Cut(uri, "://"); absolute && !strings.HasPrefix(uri, "/") {
		_, path, _ := strings.Cut(rest, "/")
		return "/" + path
	}
	return uri
}

// descriptors returns the descriptors of a request. A descriptor that needs a header which the
// request lacks is left out. Each interpretation of the path has descriptors of its own.
func (w *httpRules) descriptors(r *http.Request) ([]*common.RateLimitDescriptor, error) {
	o := w.originalOf(r)
	var all []*common.RateLimitDescriptor
	for i := range w.routes {
		one := &w.routes[i]
		if one.method != "" && !httptarget.HasMethod(one.method, o.method) || one.host != "" && one.host != o.host {
			continue
		}
		paths := o.paths
		switch {
		case !one.usesPath():
			paths = []string{""}
		case o.unknown != nil:
			return nil, o.unknown
		}
		before := len(all)
		for _, path := range paths {
			if one.path != nil && !matchesWild(one.path, path) {
				continue
			}
			made, err := w.descriptor(r, one, o, path)
			if err != nil {
				return nil, err
			}
			same := func(other *common.RateLimitDescriptor) bool { return proto.Equal(made, other) }
			if made != nil && !slices.ContainsFunc(all[before:], same) {
				all = append(all, made)
			}
		}
	}
	return all, nil
}
