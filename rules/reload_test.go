package rules

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// The file changes without a pause. No request is lost or sees half of a file, and permits that
// were taken stay taken.
func TestWatch_ReloadsUnderLoad_LoseNothing(t *testing.T) {
	client := connected(t)

	// One version bans requests that the other hardly limits. The rule "count" has another position
	// in each.
	filler := strings.ReplaceAll(strings.TrimPrefix(named("f1", "f2", "f3"), "rules:\n"), "key: ip", "match: /f, key: ip")
	count := "  - {name: count, match: /count, key: all, limits: {rate: 100/h, policy: fixed_window}}\n"
	pair := func(limits string) string { return "  - {name: a, match: /pair, key: all, limits: " + limits + "}\n" }
	versions := []string{
		"rules:\n" + count + pair("0/s") + filler,
		"rules:\n" + pair("{rate: 1000000/s, policy: fixed_window}") + filler + count,
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	put(t, path, versions[0])
	reloads := make(chan error, 1000)
	set, err := Watch(t.Context(), path, OnReload(func(err error) { reloads <- err }))
	require.NoError(t, err)
	var served atomic.Int64
	handler := set.Middleware(client,
		httplimit.Deadline(time.Minute))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))

	var granted, passed atomic.Int64
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if status(handler, "GET /count") == good {
					granted.Add(1)
				}
				switch code := status(handler, "GET /pair"); code {
				case good:
					passed.Add(1)
				case many:
				default:
					t.Errorf("%d", code)
				}
			}
		})
	}
	for i := range 10 {
		put(t, path, versions[(i+1)%2])
		require.NoError(t, <-reloads)
		want := []int{good, many}[i%2]
		require.Equal(t, want, status(handler, "GET /pair"), "a request behind a reload")
		if want == good {
			passed.Add(1)
		}
	}
	close(stop)
	all.Wait()
	for status(handler, "GET /count") == good { // what a slow machine has left
		granted.Add(1)
	}
	assert.EqualValues(t, 100, granted.Load(), "over all versions")
	assert.Equal(t, granted.Load()+passed.Load(), served.Load())
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
