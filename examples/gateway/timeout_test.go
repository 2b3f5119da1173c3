package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

const clientTimeout = 10 * time.Second

// onFakeClock serves a handler on a connection in memory, with the gateway's timeouts for clients.
func onFakeClock(t *testing.T, handler http.HandlerFunc, test func(t *testing.T, client net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		listener := redistest.NewListener()
		client := listener.Dial()
		server := newServer(writeTimeout(clientTimeout)(handler), config{clientTimeout: clientTimeout}, logTo(io.Discard))
		go func() { _ = server.Serve(listener) }()
		defer server.Close()
		defer client.Close()
		test(t, client)
	})
}

func TestServer_ClientSendsSlowly_IsDisconnected(t *testing.T) {
	onFakeClock(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
	}, func(t *testing.T, client net.Conn) {
		begin := time.Now()
		fmt.Fprint(client, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nslow")
		_, err := io.Copy(io.Discard, client) // until the server closes it
		assert.NoError(t, err)
		assert.Equal(t, clientTimeout, time.Since(begin).Truncate(time.Second))
	})
}

func TestServer_ClientDoesNotRead_EndsTheResponse(t *testing.T) {
	onFakeClock(t, func(w http.ResponseWriter, _ *http.Request) {
		begin := time.Now()
		_, err := io.Copy(w, io.LimitReader(zeros{}, 1<<30))
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.Equal(t, clientTimeout, time.Since(begin))
	}, func(_ *testing.T, client net.Conn) {
		fmt.Fprint(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		time.Sleep(clientTimeout)
		synctest.Wait()
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestServer_ResponseStreams_HasNoTimeout(t *testing.T) {
	onFakeClock(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 5 {
			time.Sleep(clientTimeout - time.Second)
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
		}
	}, func(t *testing.T, client net.Conn) {
		resp := exchange(t, client, bufio.NewReader(client), "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		body, err := io.ReadAll(resp.Body)
		assert.NoError(t, err)
		assert.Equal(t, 5, strings.Count(string(body), "data: "))
	})
}

func TestStatusOf_Error_NamesItsSide(t *testing.T) {
	left, leave := context.WithCancel(t.Context())
	leave()
	late := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	for name, c := range map[string]struct {
		ctx   context.Context
		whole bool
		err   error
		want  int
	}{
		"body too large":         {t.Context(), false, clientError{new(http.MaxBytesError)}, 413},
		"body late":              {t.Context(), false, clientError{late}, 408},
		"body late, context":     {left, false, context.Canceled, 408},
		"client gone":            {left, true, context.Canceled, 499},
		"upstream late":          {t.Context(), true, late, 504},
		"upstream does not work": {t.Context(), true, errors.New("refused"), 502},
	} {
		body := new(clientBody)
		body.whole.Store(c.whole)
		assert.Equal(t, c.want, statusOf(c.ctx, body, c.err), name)
	}
}
