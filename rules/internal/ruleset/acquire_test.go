package ruleset

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/gate"
	"github.com/rratelimiter/rratelimiter/internal/gate/gatetest"
	"github.com/rratelimiter/rratelimiter/internal/outage"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// fileOption is an option with the settings of a file.
type fileOption struct {
	httplimit.Option
	gate.SettingsOption
}

// middleware returns a function that has a set decide a request, and returns the status.
func middleware(set *Set, client *rratelimiter.Client) func(*http.Request) int {
	read := func(_ context.Context, file *File, request any) *Request { return file.HTTP(request.(*http.Request)) }
	choose := func(*http.Request) (httplimit.Limiter, error) { panic("the file chooses") }
	decide := httplimit.Middleware(choose, fileOption{SettingsOption: ByFile("test", set, client, read)})
	handler := decide(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return func(r *http.Request) int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
}

// TestDoor_Reload_KeepsTheState, and the deadline is that of the newest file.
func TestDoor_Reload_KeepsTheState(t *testing.T) {
	gatetest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
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

// Of requests that read an older file meanwhile.
func TestDoor_ConcurrentRequests_AgreeOnTheNewestFile(t *testing.T) {
	set := new(Set)
	set.Replace(parsed(t, one("ban: true")))
	d := &door{set: set, client: offline, settings: gate.Settings{Guard: outage.New(time.Second, nil)}}
	for range 200 {
		newest := parsed(t, one("key: ip, limits: 1/s"))
		var requests sync.WaitGroup
		for range 4 {
			requests.Go(func() { d.now() })
		}
		set.Replace(newest)
		v := d.now()
		requests.Wait()
		assert.Same(t, newest, v.file)
		assert.Same(t, v, d.now())
	}
}
