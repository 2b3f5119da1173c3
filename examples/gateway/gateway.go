package main

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/limit"
)

// newHandler assembles the gateway. Each request passes these parts from the top down.
func newHandler(client *rratelimiter.Client, c config, m *metrics, log *slog.Logger) http.Handler {
	who := httplimit.Address{Trusted: c.trusted}
	perClient := httplimit.Each(client, "gateway", httplimit.Combined(who.Key, c.routes.key),
		limit.FixedWindow{Permits: c.perSecond, Interval: time.Second},
		limit.FixedWindow{Permits: c.perMinute, Interval: time.Minute})

	return chain(
		newProxy(c, who, log),
		logged(log, m, c.routes, who),
		recovered(log),
		writeTimeout(c.clientTimeout),
		httplimit.Middleware(perClient,
			httplimit.OnFailure(c.mode),
			httplimit.Deadline(c.redisTimeout),
			httplimit.Report(func(r *http.Request, o httplimit.Outcome) {
				m.middleware.HTTP(r, o)
				if o.Err != nil {
					log.Info("not decided by Redis", "result", o.Result, "local", o.Local, "error", o.Err)
				}
			}),
			httplimit.OnRedisChange(func(node string, up bool, err error) {
				m.middleware.RedisChange(node, up, err)
				log.Warn("Redis state changed", "node", node, "up", up, "error", err)
			}),
			httplimit.OnSettleError(func(_ *http.Request, err error) { log.Warn("permit not released", "error", err) }),
		),
	)
}
