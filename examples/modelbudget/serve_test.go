package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

func TestServer_SlowClients_AreDisconnected(t *testing.T) {
	p := behind(t, http.NotFoundHandler(), "-client-timeout", "250ms")
	for _, key := range []string{"sk-alice", "sk-eve"} {
		conn, err := net.Dial("tcp", p.Listener.Addr().String())
		require.NoError(t, err)
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: 100\r\n\r\n{", chat, key)
		_, err = io.ReadAll(conn) // until it is closed
		assert.NoError(t, err)
		conn.Close()
	}
	assert.Equal(t, [2]int64{1, 0}, p.cost())
}

// For longer than -client-timeout.
func TestServer_Stream_HasNoTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = time.Second
		listener := redistest.NewListener()
		client := listener.Dial()
		server := newServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range 4 {
				time.Sleep(timeout)
				fmt.Fprint(w, "data: {}\n\n")
				_ = http.NewResponseController(w).Flush()
			}
		}), config{clientTimeout: timeout})
		go func() { _ = server.Serve(listener) }()
		defer server.Close()
		defer client.Close()
		fmt.Fprint(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(client), nil)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		assert.NoError(t, err)
		assert.Equal(t, 4, strings.Count(string(body), "data: {}"))
	})
}
