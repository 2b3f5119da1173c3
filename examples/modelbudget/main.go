// Modelbudget is a proxy that limits requests and tokens per minute of the users of a language-model API.
// It takes an estimate of the tokens before a request, and settles for the usage in the answer, also for
// streams and for clients that disconnect.
//
//	go run ./examples/modelbudget    # on :8090, with an in-memory Redis and a model that repeats its input
//	curl localhost:8090/v1/chat/completions -iH 'Authorization: Bearer sk-alice' \
//		-d '{"messages":[{"role":"user","content":"Hello, model!"}]}'
//
// UPSTREAM_URL, UPSTREAM_API_KEY and USERS="alice KEY, bob KEY" set the API and the keys of users, and
// REDIS_URL a Redis.
//
// Start to read at newHandler.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/limit"
)

// newHandler assembles the proxy. A request first takes a permit, then it is read and estimated, and then
// it takes its tokens. So the bodies of a user over the limit of requests are not read.
func newHandler(client *rratelimiter.Client, us users, upstream *url.URL, requests, tokens int64) http.Handler {
	perUser := func(name string, perMinute int64, opts ...httplimit.Option) func(http.Handler) http.Handler {
		// A bucket can be overdrawn: tokens beyond the estimate are owed and have to return first.
		bucket := limit.TokenBucket{Capacity: perMinute, Refill: perMinute, Interval: time.Minute}
		each := httplimit.Each(client, "model:"+name, httplimit.ByHeader(userHeader), limit.Named(name, bucket))
		return httplimit.Middleware(each, append(opts,
			httplimit.OnSettleError(func(_ *http.Request, err error) { slog.Error("not settled", "error", err) }))...)
	}
	estimate := httplimit.Cost(func(r *http.Request) int64 {
		n, _ := r.Context().Value(estimateKey{}).(int64)
		return n
	})
	proxy := &httputil.ReverseProxy{
		ModifyResponse: meter,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(upstream)
			r.Out.Header.Del(userHeader)
			r.Out.Header.Set("Authorization", "Bearer "+os.Getenv("UPSTREAM_API_KEY"))
			r.Out.Header.Set("Accept-Encoding", "identity") // to read the usage
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			slog.Warn("no answer of the API", "error", err)
			if r.Context().Err() == nil { // if the client is gone, the model may have worked: the estimate stands
				_ = httplimit.Settle(r.Context(), 0)
			}
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	mux := http.NewServeMux() // the costs of other paths are unknown
	mux.Handle("POST /v1/chat/completions",
		perUser("requests", requests)(estimated(perUser("tokens", tokens, estimate)(proxy))))
	return us.authenticated(http.MaxBytesHandler(mux, 8<<20))
}

type estimateKey struct{}

// estimated reads a request and estimates its tokens: one for four bytes, and the longest answer that it
// allows. It makes a stream end with its usage.
func estimated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var fields map[string]any
		if err != nil || json.Unmarshal(body, &fields) != nil {
			http.Error(w, "The body is not a JSON object.", http.StatusBadRequest)
			return
		}
		answer := 1024.0
		for _, name := range []string{"max_tokens", "max_completion_tokens"} {
			if n, ok := fields[name].(float64); ok {
				answer = min(max(n, 1), 1<<25)
			}
		}
		if fields["stream"] == true {
			fields["stream_options"] = map[string]any{"include_usage": true}
			if body, err = json.Marshal(fields); err != nil {
				panic(err) // it was JSON
			}
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		tokens := int64(len(body)/4+1) + int64(answer)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), estimateKey{}, tokens)))
	})
}

// meter arranges the settlement of an answer, and removes the API's limits, which are for all users together.
func meter(resp *http.Response) error {
	for name := range resp.Header {
		if strings.Contains(name, "Ratelimit") {
			resp.Header.Del(name)
		}
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return httplimit.Settle(resp.Request.Context(), 0)
	}
	resp.Body = &metered{ReadCloser: resp.Body, ctx: resp.Request.Context()}
	return nil
}

// metered settles for the usage at the end of an answer or a stream when it is closed. An answer without
// one, or one that was not read to its end, costs the estimate.
type metered struct {
	io.ReadCloser
	ctx  context.Context
	tail []byte // of the answer
}

const maxTail = 64 << 10 // a usage is shorter

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.tail = append(m.tail, p[:n]...)
	m.tail = m.tail[max(0, len(m.tail)-maxTail):]
	return n, err
}

var totalTokens = regexp.MustCompile(`"usage":\s*\{[^}]*"total_tokens":\s*(\d{1,12})`)

func (m *metered) Close() error {
	if all := totalTokens.FindAllSubmatch(m.tail, -1); len(all) > 0 {
		tokens, _ := strconv.ParseInt(string(all[len(all)-1][1]), 10, 64) // at most 12 digits
		_ = httplimit.Settle(m.ctx, tokens)                               // it works after the client has left, too
	}
	return m.ReadCloser.Close()
}

// users maps hashes of keys to names. The time of a lookup reveals nothing about other keys.
type users map[[sha256.Size]byte]string

const userHeader = "X-User"

// parseUsers reads names and keys: "alice sk-alice, bob sk-bob".
func parseUsers(text string) users {
	us := make(users)
	for _, one := range strings.Split(text, ",") {
		if name, key, ok := strings.Cut(strings.TrimSpace(one), " "); ok {
			us[sha256.Sum256([]byte(key))] = name
		}
	}
	return us
}

// authenticated sets the header with the user. No limiter exists for other keys.
func (us users) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, ok := us[sha256.Sum256([]byte(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")))]
		if !ok {
			http.Error(w, "There is no user with this key.", http.StatusUnauthorized)
			return
		}
		r.Header.Set(userHeader, user)
		next.ServeHTTP(w, r)
	})
}

func run(ctx context.Context) error {
	api, keys := os.Getenv("UPSTREAM_URL"), os.Getenv("USERS")
	if api == "" { // the built-in keys are public
		model := httptest.NewServer(http.HandlerFunc(repeat))
		defer model.Close()
		api, keys = model.URL, "alice sk-alice, bob sk-bob"
	}
	upstream, err := url.Parse(api)
	if err != nil {
		return err
	}
	redis, err := connect()
	if err != nil {
		return err
	}
	defer redis.Close()
	server := &http.Server{Addr: "localhost:8090", ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		Handler: newHandler(rratelimiter.New(redis), parseUsers(keys), upstream, 60, 20_000)}
	defer context.AfterFunc(ctx, func() { _ = server.Shutdown(context.WithoutCancel(ctx)) })()
	fmt.Printf("http://%s/v1/chat/completions: 60 requests and 20,000 tokens a minute for each user\n", server.Addr)
	return server.ListenAndServe()
}

// connect opens the Redis of REDIS_URL, or an in-memory one.
func connect() (rueidis.Client, error) {
	address := os.Getenv("REDIS_URL")
	if address == "" {
		server, err := miniredis.Run() // until the program ends
		if err != nil {
			return nil, err
		}
		server.ClockTTL(true) // its keys expire
		address = "redis://" + server.Addr()
	}
	option, err := rueidis.ParseURL(address)
	if err != nil {
		return nil, err
	}
	option.DisableCache = true // an in-memory Redis has none
	return rueidis.NewClient(option)
}

// repeat is a model that repeats the last message, a token for each word.
func repeat(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Messages []struct{ Content string }
		Stream   bool
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || len(ask.Messages) == 0 {
		http.Error(w, `{"error":{"message":"no messages"}}`, http.StatusBadRequest)
		return
	}
	text := ask.Messages[len(ask.Messages)-1].Content
	format := `{"choices":[{"message":{"content":%q}}],"usage":{"total_tokens":%d}}` + "\n"
	if ask.Stream {
		format = `data: {"choices":[{"delta":{"content":%q}}]}` + "\n\n" +
			`data: {"choices":[],"usage":{"total_tokens":%d}}` + "\n\ndata: [DONE]\n\n"
	}
	_, _ = fmt.Fprintf(w, format, text, 2*len(strings.Fields(text)))
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, "modelbudget:", err)
	}
}
