package httplimit_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// listen serves a handler on the fake clock until its end.
func listen(b *redistest.Fixture, handler http.Handler) *redistest.Listener {
	listener := redistest.NewListener()
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(listener) }()
	b.Cleanup(func() { server.Close() })
	return listener
}

// exchange sends lines of a request as they are and returns the response.
func exchange(b *redistest.Fixture, server *redistest.Listener, lines string) string {
	conn := server.Dial()
	defer conn.Close()
	go func() {
		_, _ = io.WriteString(conn, strings.ReplaceAll(lines, "\n", "\r\n")+"Connection: close\r\n\r\n")
	}()
	got, err := io.ReadAll(bufio.NewReader(conn))
	require.NoError(b, err)
	return strings.ReplaceAll(string(got), "\r\n", "\n")
}
