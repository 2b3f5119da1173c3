package main

import (
	"flag"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/httplimit"
)

// config has the values of the flags.
type config struct {
	listen, admin string
	upstream      *url.URL // nil: a built-in one
	routes        routes
	perSecond     int64
	perMinute     int64
	trusted       []netip.Prefix

	mode         httplimit.FailureMode
	redisTimeout time.Duration

	maxBody         int64
	clientTimeout   time.Duration
	upstreamTimeout time.Duration
	drain           time.Duration
	quiet           bool
}

const usage = `gateway is a reverse proxy that limits each client address on each route, per second and per minute.

	gateway [flags]            serves
	gateway load [flags] URL   generates load for a gateway; see gateway load -help

All gateways on the Redis of REDIS_URL (redis://host:6379) share the limits. Without REDIS_URL the gateway uses an
in-memory Redis. A client over its limit gets 429 with Retry-After, and all responses have RateLimit headers.
The address of -admin has /metrics for Prometheus and /healthz. SIGTERM and SIGINT let requests under way finish.

`

func parseConfig(args []string, out io.Writer) (config, error) {
	c := config{routes: newRoutes(nil), mode: httplimit.Local(0.5)}
	f := flag.NewFlagSet("gateway", flag.ContinueOnError)
	f.SetOutput(out)
	f.Usage = func() { _, _ = fmt.Fprint(out, usage); f.PrintDefaults() }
	f.StringVar(&c.listen, "listen", "localhost:8080", "serve clients on this `address`; :8080 for other hosts too")
	f.StringVar(&c.admin, "admin", "localhost:8081", "serve /metrics and /healthz on this `address`")
	f.Func("upstream", "forward requests to this `URL` (default a built-in server)", func(text string) (err error) {
		c.upstream, err = parseUpstream(text)
		return err
	})
	f.Int64Var(&c.perSecond, "second", 10, "`requests` per second of one client on one route")
	f.Int64Var(&c.perMinute, "minute", 100, "`requests` per minute of one client on one route")
	f.Func("routes", "`paths` with limits of their own, such as /login,/api, which include the paths below them "+
		"(default one route for all)", func(text string) error {
		paths := strings.Split(text, ",")
		for _, path := range paths {
			if !strings.HasPrefix(path, "/") {
				return fmt.Errorf("the path %q does not begin with /", path)
			}
		}
		c.routes = newRoutes(paths)
		return nil
	})
	f.Func("trust", "`ranges` of proxies whose X-Forwarded-For is honoured, such as 10.0.0.0/8,192.0.2.7/32 "+
		"(default none)", func(text string) error {
		for _, part := range strings.Split(text, ",") {
			network, err := netip.ParsePrefix(part)
			if err != nil {
				return err
			}
			c.trusted = append(c.trusted, network)
		}
		return nil
	})
	f.Func("redis-down", "while Redis fails, requests pass (open), fail (closed), or have a `share` of the limits in "+
		"this process: 1 divided by the number of gateways (default 0.5)", func(text string) (err error) {
		c.mode, err = parseMode(text)
		return err
	})
	f.DurationVar(&c.redisTimeout, "redis-timeout", httplimit.DefaultDeadline, "how long Redis may take for one request")
	f.Int64Var(&c.maxBody, "max-body", 10<<20, "`bytes` of a request's body; larger ones are rejected with 413")
	f.DurationVar(&c.clientTimeout, "client-timeout", 30*time.Second,
		"how long a client may take to send a request, and to read each part of the response")
	f.DurationVar(&c.upstreamTimeout, "upstream-timeout", 30*time.Second,
		"how long the upstream may take until its response begins")
	f.DurationVar(&c.drain, "drain", 10*time.Second, "how long requests under way have to finish at the end")
	f.BoolVar(&c.quiet, "quiet", false, "log only errors, not each request")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	switch {
	case f.NArg() > 0:
		return c, fmt.Errorf("%q is neither a flag nor \"load\"; see gateway -help", f.Arg(0))
	case c.perSecond < 1 || c.perMinute < 1:
		return c, fmt.Errorf("-second is %d and -minute %d, want 1 or more", c.perSecond, c.perMinute)
	case c.redisTimeout <= 0 || c.clientTimeout <= 0 || c.upstreamTimeout <= 0 || c.drain <= 0:
		return c, fmt.Errorf("-redis-timeout %v, -client-timeout %v, -upstream-timeout %v and -drain %v, want all above 0",
			c.redisTimeout, c.clientTimeout, c.upstreamTimeout, c.drain)
	case c.maxBody < 0:
		return c, fmt.Errorf("-max-body is %d, want 0 or more", c.maxBody)
	}
	return c, nil
}

func parseUpstream(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not a URL like http://host:port", text)
	}
	return u, nil
}

func parseMode(text string) (httplimit.FailureMode, error) {
	switch text {
	case "open":
		return httplimit.Open, nil
	case "closed":
		return httplimit.Closed, nil
	}
	share, err := strconv.ParseFloat(text, 64)
	if err != nil || !(share > 0 && share <= 1) {
		return 0, fmt.Errorf("%q is not open, closed or a share above 0 and at most 1", text)
	}
	return httplimit.Local(share), nil
}
