package main

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/limit"
)

// newHandler assembles the proxy. A request first takes a permit, then it is read and estimated, and then
// it takes its tokens. So the bodies of a user over the limit of requests are not read.
func newHandler(client *rratelimiter.Client, c config, log *slog.Logger) http.Handler {
	perUser := func(name string, perMinute int64, taken func(*bill) *limit.Taken, opts ...httplimit.Option,
	) func(http.Handler) http.Handler {
		// A bucket can be overdrawn: tokens beyond the estimate have to return first.
		bucket := limit.TokenBucket{Capacity: perMinute, Refill: perMinute, Interval: time.Minute}
		users := limit.NewKeyed(client, "model:"+name, bucket)
		limiter := func(r *http.Request) (httplimit.Limiter, error) {
			b := billOf(r.Context())
			return of{users.Limiter(b.user), taken(b)}, nil
		}
		return httplimit.Middleware(limiter, append(opts,
			httplimit.Policies(httplimit.Named(name, bucket)),
			httplimit.OnFailure(c.mode),
			httplimit.Deadline(c.redisTimeout),
			httplimit.Refuse(http.HandlerFunc(refuse)),
			httplimit.OnRedisChange(func(node string, up bool, err error) {
				log.Warn("Redis state changed", "node", node, "up", up, "error", err)
			}),
		)...)
	}
	requests := perUser("requests", c.requests, func(b *bill) *limit.Taken { return &b.request })
	tokens := perUser("tokens", c.tokens, func(b *bill) *limit.Taken { return &b.tokens },
		httplimit.Cost(func(r *http.Request) int64 { return billOf(r.Context()).estimate() }))

	proxy := newProxy(c, log)
	metered := requests(billed(c, log, tokens(proxy)))
	mux := http.NewServeMux()
	for path := range apis {
		mux.Handle("POST "+path, metered)
	}
	mux.Handle("GET /v1/models", requests(proxy))
	// The costs of other paths are unknown.
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, r, http.StatusNotFound, "not_found_error", "This proxy does not forward this path.")
	})
	return c.users.authenticated(mux)
}
