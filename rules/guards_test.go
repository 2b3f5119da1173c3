package rules

import (
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// A reload drops the middlewares of the older file, and opens those of the newer one on use.
func TestMiddleware_Settings_AreOpenedOnUse(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		set := parsed(b,
			"rules: [{name: a, match: /a, key: ip, limits: 9/h, deadline: 1s}, {name: b, match: /b, key: ip, limits: 9/h, deadline: 2s}]")
		m := set.middlewares(client)
		opened := func(what ...string) (deadlines []time.Duration) {
			for _, what := range what {
				next := new(ok)
				serveHTTP(m.now(), httptest.NewRecorder(), request(what), next)
				assert.Equal(b, 1, next.served, what)
			}
			m.now().opened.Range(func(s, _ any) bool {
				deadlines = append(deadlines, s.(settings).deadline)
				return true
			})
			slices.Sort(deadlines)
			return deadlines
		}
		assert.Empty(b, opened("GET /other"))
		assert.Equal(b, []time.Duration{time.Second}, opened("GET /a"))
		assert.Equal(b, []time.Duration{time.Second, 2 * time.Second}, opened("GET /b"))
		shared := m.shared[2*time.Second]
		reload(b, set, "rules: [{name: b, match: /b, key: ip, limits: 9/h, deadline: 2s}]")
		assert.Empty(b, opened("GET /other"))
		assert.Len(b, m.shared, 1)
		assert.Equal(b, []time.Duration{2 * time.Second}, opened("GET /b"))
		assert.Same(b, shared, m.shared[2*time.Second], "the state of Redis")
	})
}

// Of requests that read an older file meanwhile.
func TestMiddlewares_ConcurrentRequests_AgreeOnTheNewestFile(t *testing.T) {
	set := parsed(t, named("a"))
	m := set.middlewares(offline)
	for range 200 {
		newest := parsed(t, named("b")).file()
		var requests sync.WaitGroup
		for range 4 {
			requests.Go(func() { m.now() })
		}
		set.current.Store(newest)
		v := m.now()
		requests.Wait()
		assert.Same(t, newest, v.file)
		assert.Same(t, v, m.now())
	}
}
