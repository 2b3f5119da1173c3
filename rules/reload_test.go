package rules

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// reload puts another text in force.
func reload(f *redistest.Fixture, set *Set, text string) {
	set.inside().Replace(parsed(f, text).inside().File())
}

// The rule has another position in the new file.
func TestMiddleware_Reload_KeepsTheState(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		set := parsed(t, "rules: [{name: a, match: /a, key: ip, limits: 3/h}]")
		handler := set.Middleware(client)(&ok{})
		assert.Equal(t, good, status(handler, "GET /a"))
		assert.Equal(t, good, status(handler, "GET /a"))
		reload(f, set, "rules: [{name: b, match: /b, key: ip, limits: 1/h}, {name: a, match: /a, key: ip, limits: 4/h}]")
		assert.Equal(t, "1", serve(handler, request("GET /a")).Header().Get("Ratelimit")[len(`"hour";r=`):][:1])
		assert.Equal(t, good, status(handler, "GET /a"))
		assert.Equal(t, many, status(handler, "GET /a"))
		reload(f, set, "rules: []")
		assert.Equal(t, good, status(handler, "GET /a"))
	})
}
