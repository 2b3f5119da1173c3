package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// writer is the ResponseWriter of a handler. It adds the headers of a Middleware when the response
// begins, so that they can fit those that the handler has set, or a proxy has copied from upstream.
type writer struct {
	http.ResponseWriter
	begin func(status int) // nil if the response has begun
}

func (w *writer) begun(status int) {
	if begin := w.begin; begin != nil && status >= http.StatusOK { // below are informational responses
		w.begin = nil
		begin(status)
	}
}

func (w *writer) WriteHeader(status int) {
	w.begun(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	w.begun(http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// ReadFrom lets the server send files without a copy in memory.
func (w *writer) ReadFrom(r io.Reader) (int64, error) {
	w.begun(http.StatusOK)
	return io.Copy(w.ResponseWriter, r)
}

// Flush implements [http.Flusher] for handlers without an [http.ResponseController].
func (w *writer) Flush() { _ = w.FlushError() }

func (w *writer) FlushError() error {
	w.begun(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack adds the headers, since a handler that writes its own response may send them, as a
// ReverseProxy does for a web socket.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.begun(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
