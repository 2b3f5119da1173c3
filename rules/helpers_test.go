package rules

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
)

// parsed returns the rules of a text.
func parsed(t testing.TB, text string) *Set {
	s, err := Parse("rules.yaml", []byte(text))
	require.NoError(t, err)
	return s
}

// request returns a request like "POST /login", with pairs of header names and values.
func request(what string, headers ...string) *http.Request {
	method, target, _ := strings.Cut(what, " ")
	r := httptest.NewRequest(method, target, nil) // of 192.0.2.1
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
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

func connected(t *testing.T) *rratelimiter.Client {
	client, _ := guardtest.Connect(t)
	return client
}
