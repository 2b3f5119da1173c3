package ruleset

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/rules/internal/rulestest"
)

// The fixtures of rulestest.
var one, large, request = rulestest.One, rulestest.Large, rulestest.Request

// ended is a context that has ended: a call with it sends nothing to Redis.
var ended = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()

// parsed returns the rules of a text.
func parsed(t testing.TB, text string) *File {
	file, problems := Parse("rules.yaml", []byte(text))
	require.Empty(t, problems)
	return file
}

// ofHTTP returns a request as rules read it.
func ofHTTP(r *http.Request) *Request { return new(File).HTTP(r) }
