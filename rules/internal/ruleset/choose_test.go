package ruleset

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// fileOption is an option with the settings of a file.
type fileOption struct {
	httplimit.Option
	gate.Change[*http.Request]
}

// middleware returns a function that has a set decide a request, and returns the status.
func middleware(set *Set, client *rratelimiter.Client) func(*http.Request) int {
	choose := func(*http.Request) (httplimit.Limiter, error) { panic("the file chooses") }
	decide := httplimit.Middleware(choose, fileOption{Change: ByFile("test", set, client, (*File).HTTP)})
	handler := decide(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return func(r *http.Request) int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
}

// TestMiddleware_Reload_KeepsTheState, and the deadline is that of the newest file.
func TestMiddleware_Reload_KeepsTheState(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		rules := "rules: [{name: a, match: /a, key: ip, limits: 9/h}, {name: b, match: /b, key: ip, limits: 9/h, shadow: true}]"
		set := new(Set)
		set.Replace(parsed(t, "deadline: 1s\n"+rules))
		decide := middleware(set, client)
		timed := func(target string) (int, time.Duration) {
			begin := time.Now()
			status := decide(request(target))
			return status, time.Since(begin)
		}
		f.Latency.Store(int64(time.Minute))
		status, took := timed("GET /a")
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Equal(t, time.Second, took)
		set.Replace(parsed(t, "deadline: 3s\n"+rules))
		status, took = timed("GET /a")
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Zero(t, took, "the outage goes on")
		f.Latency.Store(0)
		time.Sleep(2 * time.Minute)
		status, _ = timed("GET /a")
		assert.Equal(t, http.StatusOK, status)
		f.Latency.Store(int64(time.Minute))
		_, took = timed("GET /b")
		assert.Equal(t, 3*time.Second, took)
		f.Latency.Store(0)
		time.Sleep(2 * time.Minute)
	})
}

// A request finds its limiters open.
func TestSet_Replace_CompilesForEachMiddleware(t *testing.T) {
	set, options := new(Set), make([]gate.Options[*http.Request], 2)
	for i := range options {
		ByFile("test", set, offline, (*File).HTTP)(&options[i])
	}
	set.Replace(parsed(t, one("key: ip, limits: 1/s")))
	for _, o := range options {
		v := o.Chooser.(*chooser[*http.Request]).current.Load()
		assert.Same(t, set.File(), v.file)
		assert.NotNil(t, v.rules[0].limiters.keyed)
	}
}
