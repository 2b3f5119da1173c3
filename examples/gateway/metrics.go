package main

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rratelimiter/rratelimiter/httplimit"
)

// metrics is what Prometheus is told. No label has what a client can make up: not its address, not its path.
type metrics struct {
	registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	decisions *prometheus.CounterVec
	redisUp   prometheus.Gauge
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_requests_total", Help: "Requests by route and by the status of their response.",
		}, []string{"route", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gateway_request_seconds", Help: "How long requests took, to the end of the response.", Buckets: prometheus.DefBuckets,
		}, []string{"route"}),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_decisions_total", Help: "What the limiter decided, and whether this process did so without Redis.",
		}, []string{"route", "result", "local"}),
		redisUp: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gateway_redis_up", Help: "1 while Redis answers, as requests see it, else 0.",
		}),
	}
	m.registry.MustRegister(m.requests, m.seconds, m.decisions, m.redisUp)
	m.redisUp.Set(1)
	return m
}

// served counts a request that is over.
func (m *metrics) served(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}

// decided counts a decision of the limiter.
func (m *metrics) decided(route string, o httplimit.Outcome) {
	m.decisions.WithLabelValues(route, o.Result.String(), strconv.FormatBool(o.Local)).Inc()
}

// redisIs tells whether Redis answers.
func (m *metrics) redisIs(up bool) {
	value := 0.0
	if up {
		value = 1
	}
	m.redisUp.Set(value)
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
