package routers

import (
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// connect opens a Client on an in-memory Redis instead of
//
//	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
//	client := rratelimiter.New(redis)
//
// Its clock stands still, so that the output of examples is always the same.
var connect = guardtest.Example

// unhurried is a deadline for busy machines.
var unhurried = httplimit.Deadline(time.Minute)

// twoAnHour limits each client to two requests per hour.
func twoAnHour(client *rratelimiter.Client) func(http.Handler) http.Handler {
	return httplimit.Middleware(httplimit.Each(client, "web", httplimit.ByIP(),
		limit.FixedWindow{Permits: 2, Interval: time.Hour}), unhurried)
}

// get sends a request to a handler.
func get(handler http.Handler, path string) *http.Response {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Result()
}
