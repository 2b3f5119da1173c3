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

// part is a piece of a chain: it does its own work around the next handler.
type part = func(next http.Handler) http.Handler

// chain puts parts around a handler, the first one outermost.
func chain(handler http.Handler, parts ...part) http.Handler {
	for _, p := range slices.Backward(parts) {
		handler = p(handler)
	}
	return handler
}

// logged logs and counts each request when it is over.
func logged(log *slog.Logger, m *metrics, rs routes, who httplimit.Address) part {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			begin := time.Now()
			rec := &recorder{ResponseWriter: w}
			defer func() { // also where the response breaks off, which is a panic
				took, status := time.Since(begin), cmp.Or(rec.status, http.StatusOK)
				m.served(rs.of(r), status, took)
				from := r.RemoteAddr
				if client, err := who.Client(r); err == nil {
					from = client.String()
				}
				log.Info("request", "client", from, "method", r.Method, "path", r.URL.Path, "status", status, "bytes", rec.bytes, "took", took)
			}()
			next.ServeHTTP(rec, r)
		})
	}
}

// recovered answers 500 where a handler panics, and breaks a response off that has begun.
func recovered(log *slog.Logger) part {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := &recorder{ResponseWriter: w}
			defer func() {
				v := recover()
				if v == nil {
					return
				}
				if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) { // how the proxy breaks a response off whose upstream has gone
					panic(v)
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

// hurried gives clients so long to take each piece of a response: a response may stream for as long as it likes, and a client that
// reads none of it is let go. For the request there is http.Server.ReadTimeout.
func hurried(patience time.Duration) part {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(&hurriedWriter{w, http.NewResponseController(w), patience}, r)
		})
	}
}

type hurriedWriter struct {
	http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
}

func (w *hurriedWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.patience)) // what a connection cannot do it need not
	return w.ResponseWriter.Write(p)
}

func (w *hurriedWriter) FlushError() error {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.patience))
	return w.control.Flush()
}

func (w *hurriedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	status int // 0: nothing yet
	bytes  int64
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK { // not for informational ones, which come before
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

// Hijack is for upgrades, as to a WebSocket.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.status = http.StatusSwitchingProtocols
	}
	return conn, buffered, err
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
