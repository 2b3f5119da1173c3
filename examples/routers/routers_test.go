package routers

import (
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"

	"github.com/rratelimiter/rratelimiter/httplimit"
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
