// Gateway is a reverse proxy that limits each client address: per second and per minute, and log-ins
// more than the rest. It shows a program around package httplimit, with metrics and a clean end.
//
//	go run ./examples/gateway    # on :8080, with an in-memory Redis and an upstream of its own
//	curl -i localhost:8080
//
// Start to read at newHandler.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/rueidis"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/limit"
	"github.com/rratelimiter/rratelimiter/otellimit"
)

// config has the values of the flags.
type config struct {
	listen, admin, upstream string
	trusted                 []netip.Prefix
	perSecond, perMinute    int64
}

// newHandler assembles the gateway. All gateways on one Redis share the limits.
func newHandler(client *rratelimiter.Client, c config, upstream *url.URL, metrics *otellimit.Middleware) http.Handler {
	who := httplimit.Address{Trusted: c.trusted}
	options := []httplimit.Option{
		httplimit.OnFailure(limit.Local(0.5)), // of two gateways, while Redis is away
		httplimit.Report(metrics.HTTP),
		httplimit.OnRedisChange(func(node string, up bool, err error) {
			metrics.RedisChange(node, up, err)
			slog.Warn("Redis state changed", "node", node, "up", up, "error", err)
		}),
		httplimit.OnSettleError(func(_ *http.Request, err error) { slog.Warn("permit not released", "error", err) }),
	}
	all := httplimit.Middleware(httplimit.Each(client, "gateway", who.Key,
		limit.FixedWindow{Permits: c.perSecond, Interval: time.Second},
		limit.FixedWindow{Permits: c.perMinute, Interval: time.Minute}), options...)
	logins := httplimit.Middleware(httplimit.Each(client, "logins", who.Key,
		limit.SlidingWindow{Permits: 5, Interval: time.Minute}), options...)

	proxy := newProxy(upstream, who)
	mux := http.NewServeMux()
	mux.Handle("/", all(proxy))
	mux.Handle("/login", logins(proxy))
	return http.MaxBytesHandler(mux, 10<<20)
}

// newProxy forwards requests to the upstream.
func newProxy(upstream *url.URL, who httplimit.Address) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(upstream)
			r.SetXForwarded()
			if client, err := who.Client(r.In); err == nil { // the address that was limited
				r.Out.Header.Set("X-Forwarded-For", client.String())
			}
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			slog.Warn("no response of the upstream", "method", r.Method, "path", r.URL.Path, "error", err)
			if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
				// The upstream has done no work, so the permit is released. A request that failed there counts.
				if err := httplimit.Settle(r.Context(), 0); err != nil {
					slog.Warn("permit not released", "error", err)
				}
			}
			http.Error(w, http.StatusText(http.StatusBadGateway), http.StatusBadGateway)
		},
	}
}

// newMetrics returns what measures limits and calls to Redis, and the handler of /metrics.
func newMetrics() (*otellimit.Telemetry, http.Handler, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(),
		exporter.WithoutTargetInfo())
	if err != nil {
		return nil, nil, err
	}
	telemetry, err := otellimit.New(otellimit.WithMeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader))))
	return telemetry, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), err
}

func parseConfig(args []string, out io.Writer) (c config, err error) {
	f := flag.NewFlagSet("gateway", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&c.listen, "listen", "localhost:8080", "serve clients on this `address`; :8080 for other hosts too")
	f.StringVar(&c.admin, "admin", "localhost:8081", "serve /metrics and /healthz on this `address`")
	f.StringVar(&c.upstream, "upstream", "", "forward requests to this `URL` (default a built-in server)")
	f.Int64Var(&c.perSecond, "second", 10, "`requests` per second of one client")
	f.Int64Var(&c.perMinute, "minute", 100, "`requests` per minute of one client")
	f.Func("trust", "a `range` of proxies whose X-Forwarded-For is honoured, such as 10.0.0.0/8; may be repeated",
		func(text string) error {
			network, err := netip.ParsePrefix(text)
			c.trusted = append(c.trusted, network)
			return err
		})
	if err := f.Parse(args); err != nil {
		return c, err
	}
	return c, limit.Validate(limit.FixedWindow{Permits: min(c.perSecond, c.perMinute), Interval: time.Second})
}

// connect opens the Redis of REDIS_URL, or an in-memory one.
func connect() (rueidis.Client, error) {
	address := os.Getenv("REDIS_URL")
	if address == "" {
		server, err := miniredis.Run() // until the program ends
		if err != nil {
			return nil, err
		}
		server.ClockTTL(true) // its keys expire
		address = "redis://" + server.Addr()
	}
	option, err := rueidis.ParseURL(address)
	if err != nil {
		return nil, err
	}
	option.DisableCache = true          // an in-memory Redis has none
	return rratelimiter.Connect(option) // also while Redis is down
}

// run serves until ctx ends, and then lets the requests under way finish.
func run(ctx context.Context, args []string, out io.Writer) error {
	c, err := parseConfig(args, out)
	if err != nil {
		return err
	}
	redis, err := connect()
	if err != nil {
		return err
	}
	defer redis.Close()
	if c.upstream == "" {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, "%s %s for %s\n", r.Method, r.URL.Path, r.Header.Get("X-Forwarded-For"))
		}))
		defer server.Close()
		c.upstream = server.URL
	}
	upstream, err := url.Parse(c.upstream)
	if err != nil {
		return err
	}
	telemetry, metrics, err := newMetrics()
	if err != nil {
		return err
	}
	client := rratelimiter.New(redis, rratelimiter.WithObserver(telemetry.Observer()))
	admin := http.NewServeMux()
	admin.Handle("GET /metrics", metrics)
	// Health does not include Redis: the gateway works without it.
	admin.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	handlers := map[string]http.Handler{
		c.listen: newHandler(client, c, upstream, telemetry.Middleware("gateway")), c.admin: admin,
	}
	ended := make(chan error, len(handlers))
	var servers []*http.Server
	for address, handler := range handlers {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
			IdleTimeout: time.Minute}
		defer func() { _ = server.Close() }()
		servers = append(servers, server)
		go func() { ended <- server.Serve(listener) }()
	}
	_, _ = fmt.Fprintf(out, "http://%s -> %v: %d requests per second and %d per minute for each client, 5 per minute to "+
		"/login; metrics on http://%s/metrics\n", c.listen, upstream, c.perSecond, c.perMinute, c.admin)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	for _, server := range servers {
		err = errors.Join(err, server.Shutdown(drain))
	}
	return errors.Join(err, client.Flush(drain)) // it has an effect only with WithPrefetch
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1) //nolint:gocritic // the deferred stop is not needed any more
	}
}
