package rules

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
	"github.com/rratelimiter/rratelimiter/rules/internal/rulestest"
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

// TestWatch_RequestsUnderWay_AreDecidedByTheOldFile: one request never meets rules of two files.
func TestWatch_RequestsUnderWay_AreDecidedByTheOldFile(t *testing.T) {
	for name, door := range map[string]func(*Set, *rratelimiter.Client, httplimit.Option) http.Handler{
		"Middleware": func(s *Set, client *rratelimiter.Client, opt httplimit.Option) http.Handler {
			return s.Middleware(client, opt)(granted)
		},
		"ForwardAuth": func(s *Set, client *rratelimiter.Client, opt httplimit.Option) http.Handler {
			return s.ForwardAuth(client, opt)
		},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
				p := newPolled(f, rulestest.TwoRules("a", "b"))
				p.run()
				hold := rulestest.NewHold()
				handler := door(p.set, client,
					httplimit.Report(func(_ *http.Request, o limit.Outcome) { hold.Report(o.Limiter) }))
				hold.Test(t, func() { assert.Equal(t, good, status(handler, "GET /")) }, func() {
					p.put(rulestest.TwoRules("c", "d"))
					sleepAndWait(time.Minute)
				})
			})
		})
	}
}
