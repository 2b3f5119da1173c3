package ruleset

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// decoder decodes the parts of a file.
type decoder struct {
	rulefile.Decoder

	// Of the head of the file.
	domain       string
	allowSlashes bool
	address      httplimit.Address
}

// flag decodes a field that is true or left out.
func (d *decoder) flag(n *rulefile.Node) {
	if !d.Boolean(n) {
		d.Fail(n, "want true, or leave it out")
	}
}

type headerName string

func (*headerName) Want() string { return "a text, the header that proxies write" }

func (h *headerName) UnmarshalText(text []byte) error {
	if !isToken(string(text)) {
		return fmt.Errorf("%q is no name of a header", rulefile.Clip(string(text)))
	}
	*h = headerName(http.CanonicalHeaderKey(string(text)))
	switch {
	case *h == "Host":
		return errors.New("the pattern of a rule has the host, as api.example.com/path, not a header")
	case httptarget.IsConnectionField(string(*h)):
		return fmt.Errorf("the header %s is about a connection, and no part of a request for the next server", *h)
	}
	return nil
}

// isBinary reports whether the header has bytes in place of a text, if it is metadata of gRPC.
func (h headerName) isBinary() bool { return strings.HasSuffix(string(h), "-Bin") }

// isToken reports whether a text is a token of HTTP: a method or the name of a header.
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

type method string

func (*method) Want() string { return "a text, a method like POST" }

func (m *method) UnmarshalText(text []byte) error {
	if *m = method(text); !isToken(string(*m)) || string(*m) != strings.ToUpper(string(*m)) {
		return fmt.Errorf("%q, want %s in capitals", rulefile.Clip(string(*m)), m.Want())
	}
	return nil
}

func hasMethod(methods []method, requested string) bool {
	return slices.ContainsFunc(methods, func(wanted method) bool {
		return httptarget.HasMethod(string(wanted), requested)
	})
}
