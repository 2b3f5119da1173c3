package ruleset

import (
	"net/http"
	"net/netip"

	"github.com/rratelimiter/rratelimiter/internal/httptarget"
)

// Request is a request of HTTP, or a call of gRPC, as rules read it.
type Request struct {
	Method    string                     // of HTTP in upper case; of gRPC the full method
	MethodKey string                     // the method as a key
	Host      string                     // without port and final dot, in lower case
	Headers   func() http.Header         // by the canonical name
	Client    func() (netip.Addr, error) // the client's address
	ClientKey func() (string, error)     // the client's address as a key
	Length    int64                      // of the body, -1 if unknown

	// Path returns the interpretations of the path, or an error if there are none. It is nil for a
	// call of gRPC, whose path is its method.
	Path func(allowSlashes bool) (httptarget.Path, error)
}
