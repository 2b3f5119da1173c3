package main

import (
	"bufio"
	"cmp"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"github.com/rratelimiter/rratelimiter/httplimit"
)

// part is a middleware.
type part = func(next http.Handler) http.Handler

// chain wraps a handler with parts, the first one outermost.
func chain(handler http.Handler, parts ...part) http.Handler {
	for _, p := range slices.Backward(parts) {
		handler = p(handler)
	}
	return handler
}

// logged logs and measures each request at its end.
func logged(log *slog.Logger, m *metrics, rs routes, who httplimit.Address) part {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			begin := time.Now()
			rec := &recorder{ResponseWriter: w}
			defer func() { // also if the response is aborted by a panic
				took, status := time.Since(begin), cmp.Or(rec.status, http.StatusOK)
				m.served(rs.of(r), status, took)
				from := r.RemoteAddr
				if client, err := who.Client(r); err == nil {
					from = client.String()
				}
				log.Info("request", "client", from, "method", r.Method, "path", r.URL.Path,
					"status", status, "bytes", rec.bytes, "took", took)
			}()
			next.ServeHTTP(rec, r)
		})
	}
}

// recovered answers 500 if a handler panics, and aborts a response that has begun.
func recovered(log *slog.Logger) part {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := &recorder{ResponseWriter: w}
			defer func() {
				v := recover()
				if v == nil {
					return
				}
				if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(v) // the proxy aborts a response whose upstream is gone
				}
				log.Error("a handler panicked", "panic", v, "stack", string(debug.Stack()))
				if rec.status != 0 {
					panic(http.ErrAbortHandler)
				}
				http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
			}()
			next.ServeHTTP(rec, r)
		})
	}
}

// writeTimeout bounds each write of a response: a response may stream without a limit, but a client that
// does not read is disconnected. http.Server.ReadTimeout bounds the request.
func writeTimeout(timeout time.Duration) part {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(&timeoutWriter{w, http.NewResponseController(w), timeout}, r)
		})
	}
}

type timeoutWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

func (w *timeoutWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.timeout)) // not every connection supports it
	return w.ResponseWriter.Write(p)
}

func (w *timeoutWriter) FlushError() error {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.timeout))
	return w.control.Flush()
}

func (w *timeoutWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// recorder records status and size of a response.
type recorder struct {
	http.ResponseWriter
	status int // 0: none yet
	bytes  int64
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK { // not informational
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	r.status = cmp.Or(r.status, http.StatusOK)
	n, err := r.ResponseWriter.Write(p)
	r.bytes += int64(n)
	return n, err
}

// Hijack supports upgrades, such as to a WebSocket.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.status = http.StatusSwitchingProtocols
	}
	return conn, buffered, err
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
