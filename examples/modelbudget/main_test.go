package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// newProxy returns a proxy of three requests and 1,000 tokens a minute for each user.
func newProxy(t *testing.T, model http.HandlerFunc) http.Handler {
	redis, err := connect()
	require.NoError(t, err)
	t.Cleanup(redis.Close)
	server := httptest.NewServer(model)
	t.Cleanup(server.Close)
	upstream, err := url.Parse(server.URL)
	require.NoError(t, err)
	return newHandler(rratelimiter.New(redis), parseUsers("alice sk-alice, bob sk-bob"), upstream, 3, 1000)
}

func ask(ctx context.Context, proxy http.Handler, key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+key)
	w := httptest.NewRecorder()
	proxy.ServeHTTP(w, r)
	return w
}

const hello = `{"messages":[{"content":"Hello, model!"}],"max_tokens":400}`

// An answer costs its usage, also of a stream. Its estimate of 415 tokens fits once more.
func TestProxy_Answers_AreSettledForTheirUsage(t *testing.T) {
	proxy := newProxy(t, repeat)
	for _, body := range []string{hello, strings.Replace(hello, "{", `{"stream":true,`, 1), hello} {
		w := ask(t.Context(), proxy, "sk-alice", body)
		assert.Equal(t, 200, w.Code)
		assert.Contains(t, w.Body.String(), "Hello, model!")
		assert.Contains(t, w.Body.String(), `"total_tokens":4`)
	}
	w := ask(t.Context(), proxy, "sk-alice", hello)
	assert.Equal(t, 429, w.Code)
	assert.Contains(t, w.Body.String(), `"requests"`, "the tokens of three answers are a few")
	assert.Equal(t, 200, ask(t.Context(), proxy, "sk-bob", hello).Code, "another user")
}

func TestProxy_Tokens_AreLimited(t *testing.T) {
	proxy := newProxy(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "error") {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, `{"choices":[]}`) // no usage
	})
	assert.Equal(t, 500, ask(t.Context(), proxy, "sk-alice", strings.Replace(hello, "Hello", "error", 1)).Code)
	// An error costs nothing, and an answer without a usage its estimate.
	assert.Equal(t, 200, ask(t.Context(), proxy, "sk-alice", strings.Replace(hello, "400", "900", 1)).Code)
	w := ask(t.Context(), proxy, "sk-alice", hello)
	assert.Equal(t, 429, w.Code)
	assert.Contains(t, w.Body.String(), `"tokens"`)
	assert.NotEmpty(t, w.Header().Get("Retry-After"))
}

// More than the estimate is owed.
func TestProxy_AnswerBeyondTheEstimate_IsOwed(t *testing.T) {
	proxy := newProxy(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Ratelimit-Remaining-Tokens", "5")
		_, _ = io.WriteString(w, `{"usage": {"prompt_tokens": 1, "total_tokens": 1900}}`)
	})
	w := ask(t.Context(), proxy, "sk-bob", hello)
	assert.Equal(t, 200, w.Code)
	assert.Empty(t, w.Header().Get("X-Ratelimit-Remaining-Tokens"), "a limit of all users together")
	assert.Equal(t, 429, ask(t.Context(), proxy, "sk-bob", `{"max_tokens":1}`).Code)
}

func TestProxy_InvalidRequests_CostNoTokens(t *testing.T) {
	proxy := newProxy(t, repeat)
	assert.Equal(t, 401, ask(t.Context(), proxy, "sk-eve", hello).Code)
	assert.Equal(t, 401, ask(t.Context(), proxy, "", hello).Code)
	assert.Equal(t, 400, ask(t.Context(), proxy, "sk-alice", "[]").Code)
	assert.Equal(t, 400, ask(t.Context(), proxy, "sk-alice", strings.Repeat(" ", 9<<20)).Code)
	r := httptest.NewRequest(http.MethodPost, "/v1/files", nil)
	r.Header.Set("Authorization", "Bearer sk-alice")
	w := httptest.NewRecorder()
	proxy.ServeHTTP(w, r)
	assert.Equal(t, 404, w.Code)
}
