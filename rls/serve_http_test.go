package rls_test

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/rls"
)

// servedHTTP serves a server's HTTP side as Serve does, and returns what dials it.
func servedHTTP(b *redistest.Fixture, client *rratelimiter.Client, change ...func(*rls.Config)) (dial func() net.Conn) {
	memory := redistest.NewListener()
	server, listener := rls.HTTPServer(newServer(b, client, webConfigOpen, change...), memory)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	b.Cleanup(func() {
		server.Close()
		assert.ErrorIs(b, <-ended, http.ErrServerClosed)
	})
	return func() net.Conn {
		conn := memory.Dial()
		b.Cleanup(func() { conn.Close() })
		return conn
	}
}

var webConfigOpen = strings.Replace(webConfig, "FAILURE", "open", 1)

const healthRequest = "GET /healthcheck HTTP/1.1\r\nHost: x\r\n\r\n"

// answered reads a response, and reports its status.
func answered(t testing.TB, conn net.Conn) int {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	response.Body.Close()
	return response.StatusCode
}

// A client that sends its request a byte at a time does not keep its connection.
func TestServeHTTP_SlowClient_LosesItsConnection(t *testing.T) {
	for name, text := range map[string]string{
		"body":   "POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
		"header": "POST /json HTTP/1.1\r\nHost: x\r\nX-",
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
				conn := servedHTTP(b, client)()
				begin := time.Now()
				go func() {
					for err := error(nil); err == nil; text = "x" {
						_, err = conn.Write([]byte(text))
						redistest.Pass(time.Second)
					}
				}()
				for buffer := make([]byte, 1000); ; {
					if _, err := conn.Read(buffer); err != nil {
						break
					}
				}
				assert.LessOrEqual(t, time.Since(begin), 6*time.Second)
			})
		})
	}
}

// A client that does not read its answer does not keep its connection.
func TestServeHTTP_ClientThatDoesNotRead_LosesItsConnection(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		conn := servedHTTP(b, client)()
		_, err := conn.Write([]byte(healthRequest))
		require.NoError(t, err)
		redistest.Pass(time.Minute)
		_, err = conn.Read(make([]byte, 1))
		assert.Error(t, err)
	})
}

// Beyond the bound a connection waits, and is served as soon as another one ends.
func TestServeHTTP_MoreConnectionsThanTheBound_Wait(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		dial := servedHTTP(b, client, func(c *rls.Config) { c.HTTPConns = 2 })
		slow := []net.Conn{dial(), dial()}
		for _, conn := range slow {
			_, err := conn.Write([]byte("GET /healthcheck HTTP/1.1\r\n"))
			require.NoError(t, err)
		}
		third := dial()
		go func() { _, _ = third.Write([]byte(healthRequest)) }()
		begin := time.Now()
		assert.Equal(t, 200, answered(t, third))
		assert.Equal(t, 5*time.Second, time.Since(begin), "until the slow ones have had their time")
	})
}

// Idle connections of proxies keep no other out: at the bound they are closed.
func TestServeHTTP_IdleConnectionsAtTheBound_AreClosed(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		dial := servedHTTP(b, client, func(c *rls.Config) { c.HTTPConns = 2 })
		begin := time.Now()
		for range 5 {
			conn := dial()
			go func() { _, _ = conn.Write([]byte(healthRequest)) }()
			assert.Equal(t, 200, answered(t, conn))
			redistest.Pass(time.Millisecond) // it is idle now
		}
		assert.Less(t, time.Since(begin), time.Second)
	})
}

func TestServeHTTP_LargeHeader_IsRefused(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		for size, want := range map[int]int{60 << 10: 200, 80 << 10: 431} {
			conn := servedHTTP(b, client)()
			go func() {
				large := "X-Large: " + strings.Repeat("x", size) + "\r\n\r\n"
				_, _ = conn.Write([]byte("GET /healthcheck HTTP/1.1\r\nHost: x\r\n" + large))
			}()
			assert.Equal(t, want, answered(t, conn))
		}
	})
}
