package routers

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"
	"github.com/quic-go/quic-go/http3"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Limit one handler of a ServeMux by a wildcard of its pattern, or all by a middleware around the mux.
func Example_serveMux() {
	client := connect()

	perUser := httplimit.Middleware(httplimit.Each(client, "user", httplimit.ByPathValue("id"),
		limit.FixedWindow{Permits: 1, Interval: time.Hour}), unhurried)
	mux := http.NewServeMux()
	mux.Handle("GET /users/{id}", perUser(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "user", r.PathValue("id"))
	})))
	handler := twoAnHour(client)(mux)
	for _, path := range []string{"/users/1", "/users/1", "/users/2"} {
		fmt.Println(get(handler, path).Status)
	}
	// Output:
	// 200 OK
	// 429 Too Many Requests
	// 429 Too Many Requests
}

// chi accepts the middleware directly: Use for all routes, With for one.
func Example_chi() {
	client := connect()

	perUser := httplimit.Middleware(httplimit.Each(client, "user", httplimit.ByPathValue("id"),
		limit.FixedWindow{Permits: 1, Interval: time.Hour}), unhurried)
	router := chi.NewRouter()
	router.Use(twoAnHour(client))
	router.With(perUser).Get("/users/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "user", chi.URLParam(r, "id"))
	})
	for _, path := range []string{"/users/1", "/users/1", "/users/2"} {
		fmt.Println(get(router, path).Status)
	}
	// Output:
	// 200 OK
	// 429 Too Many Requests
	// 429 Too Many Requests
}

// echo wraps the middleware and passes on the handler's context.
func Example_echo() {
	client := connect()

	e := echo.New()
	e.Use(echo.WrapMiddleware(twoAnHour(client)))
	e.GET("/hello", func(c echo.Context) error {
		o, _ := httplimit.FromContext(c.Request().Context())
		return c.String(http.StatusOK, fmt.Sprintln(o.Decision.Remaining, "left"))
	})
	for range 3 {
		fmt.Println(get(e, "/hello").Status)
	}
	// Output:
	// 200 OK
	// 200 OK
	// 429 Too Many Requests
}

// gin's handlers have another type: Next runs the following ones, unless the middleware has answered.
func Example_gin() {
	client := connect()

	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	limited := twoAnHour(client)
	engine.Use(func(c *gin.Context) {
		passed := false
		limited(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			passed = true
			c.Request = r
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)
		if !passed {
			c.Abort()
		}
	})
	engine.GET("/hello", func(c *gin.Context) {
		o, _ := httplimit.FromContext(c.Request.Context())
		c.String(http.StatusOK, "%d left", o.Decision.Remaining)
	})
	for range 3 {
		fmt.Println(get(engine, "/hello").Status)
	}
	// Output:
	// 200 OK
	// 200 OK
	// 429 Too Many Requests
}

// quic-go serves any http.Handler by HTTP/3, and its client is an http.RoundTripper.
func Example_http3() {
	client := connect()

	// A certificate for localhost.
	borrowed := httptest.NewUnstartedServer(nil)
	borrowed.StartTLS()
	defer borrowed.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(borrowed.Certificate())

	server := &http3.Server{
		TLSConfig: http3.ConfigureTLSConfig(&tls.Config{Certificates: borrowed.TLS.Certificates}),
		Handler: twoAnHour(client)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, "hello over", r.Proto)
		})),
	}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() { _ = server.Serve(conn) }() // until Close
	defer func() { server.Close(); conn.Close() }()

	transport := &http3.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: "example.com"}}
	defer transport.Close()
	for range 3 {
		resp, err := (&http.Client{Transport: transport}).Get("https://" + conn.LocalAddr().String())
		if err != nil {
			panic(err)
		}
		resp.Body.Close()
		fmt.Println(resp.Proto, resp.Status, resp.Header["Ratelimit-Policy"], resp.Header.Get("Retry-After") != "")
	}
	// Output:
	// HTTP/3.0 200 OK ["hour";q=2;w=3600] false
	// HTTP/3.0 200 OK ["hour";q=2;w=3600] false
	// HTTP/3.0 429 Too Many Requests ["hour";q=2;w=3600] true
}

// connect opens a Client on an in-memory Redis instead of
//
//	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
//	client := rratelimiter.New(redis)
//
// Its clock stands still, so that the output of examples is always the same.
var connect = guardtest.Example

// unhurried is a deadline for busy machines.
var unhurried = httplimit.Deadline(time.Minute)

// twoAnHour limits each client to two requests per hour.
func twoAnHour(client *rratelimiter.Client) func(http.Handler) http.Handler {
	return httplimit.Middleware(httplimit.Each(client, "web", httplimit.ByIP(),
		limit.FixedWindow{Permits: 2, Interval: time.Hour}), unhurried)
}

// get sends a request to a handler.
func get(handler http.Handler, path string) *http.Response {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Result()
}
