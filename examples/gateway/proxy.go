package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter/httplimit"
)

// newProxy forwards requests to the upstream.
func newProxy(c config, who httplimit.Address, log *slog.Logger) http.Handler {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	transport.DialContext = (&net.Dialer{Timeout: min(c.upstreamTimeout, 5*time.Second)}).DialContext
	transport.ResponseHeaderTimeout = c.upstreamTimeout
	transport.MaxIdleConnsPerHost = 100
	proxy := httputil.ReverseProxy{
		Transport: transport,
		ErrorLog:  slog.NewLogLogger(log.Handler(), slog.LevelError),
		Rewrite:   func(r *httputil.ProxyRequest) { rewrite(r, c, who) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodConnect:
			http.Error(w, "CONNECT is not supported.", http.StatusMethodNotAllowed)
			return
		case r.ContentLength > c.maxBody:
			http.Error(w, http.StatusText(http.StatusRequestEntityTooLarge), http.StatusRequestEntityTooLarge)
			return
		}
		body := &clientBody{ReadCloser: http.MaxBytesReader(w, r.Body, c.maxBody)}
		if body.whole.Store(r.ContentLength == 0); r.ContentLength != 0 {
			r.Body = body
		}
		each := proxy
		each.ErrorHandler = func(w http.ResponseWriter, r *http.Request, err error) {
			status := statusOf(r.Context(), body, err)
			log.Warn("no response of the upstream", "method", r.Method, "path", r.URL.Path, "status", status, "error", err)
			if unreached(err) {
				// The upstream has done no work, so the permit is released. A request that failed there counts.
				if err := httplimit.Settle(r.Context(), 0); err != nil {
					log.Warn("permit not released", "error", err)
				}
			}
			http.Error(w, http.StatusText(status), status)
		}
		each.ServeHTTP(&keeper{ResponseWriter: w, header: w.Header().Clone()}, r)
	})
}

// rewrite sets the headers of the upstream's request: the address that was limited, and the forwarding
// headers of trusted proxies only.
func rewrite(r *httputil.ProxyRequest, c config, who httplimit.Address) {
	r.SetURL(c.upstream)
	r.SetXForwarded()
	client, err := who.Client(r.In)
	if err != nil {
		r.Out.Header.Del("X-Forwarded-For")
		return
	}
	r.Out.Header.Set("X-Forwarded-For", client.String())
	peer, err := netip.ParseAddrPort(r.In.RemoteAddr)
	if err != nil || peer.Addr().Unmap().WithZone("") == client {
		return
	}
	for _, name := range []string{"X-Forwarded-Proto", "X-Forwarded-Host"} {
		if value := r.In.Header.Get(name); value != "" {
			r.Out.Header.Set(name, value)
		}
	}
}

// clientBody marks errors of the client's body, to distinguish them from those of the upstream.
type clientBody struct {
	io.ReadCloser
	whole atomic.Bool // read to its end
}

type clientError struct{ error }

func (e clientError) Unwrap() error { return e.error }

func (b *clientBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.whole.Store(true)
	case err != nil:
		err = clientError{err}
	}
	return n, err
}

// statusOf returns the client's status for a request without a response.
func statusOf(ctx context.Context, body *clientBody, err error) int {
	var large *http.MaxBytesError
	var client clientError
	var network net.Error
	switch {
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge
	case errors.As(err, &client) || ctx.Err() != nil: // a late body ends the context
		if body.whole.Load() {
			return statusClientGone
		}
		return http.StatusRequestTimeout
	case errors.As(err, &network) && network.Timeout():
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}

// statusClientGone appears only in the log, as in nginx.
const statusClientGone = 499

// unreached reports whether there was no connection to the upstream.
func unreached(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// keeper keeps the headers that earlier parts have set, such as RateLimit. ReverseProxy clears all
// headers after an informational response of the upstream (100 Continue, 103 Early Hints).
type keeper struct {
	http.ResponseWriter
	header  http.Header
	cleared bool
}

func (k *keeper) WriteHeader(status int) {
	if status < http.StatusOK {
		k.cleared = true
	} else if k.cleared {
		h := k.Header()
		for name, values := range k.header {
			h[name] = append(values, h[name]...)
		}
	}
	k.ResponseWriter.WriteHeader(status)
}

func (k *keeper) Unwrap() http.ResponseWriter { return k.ResponseWriter }
