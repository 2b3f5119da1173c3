package rules

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/rules/internal/rulestest"
)

// The fixtures of rulestest.
var (
	one, request = rulestest.One, rulestest.Request
	offline      = rulestest.Offline
)

// parsed returns the rules of a text.
func parsed(t testing.TB, text string) *Set {
	s, err := Parse("rules.yaml", []byte(text))
	require.NoError(t, err)
	return s
}

// status returns the status of the response to a request.
func status(h http.Handler, what string, headers ...string) int {
	return serve(h, request(what, headers...)).Code
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// ok is a handler that counts.
type ok struct{ served int }

func (h *ok) ServeHTTP(http.ResponseWriter, *http.Request) { h.served++ }
