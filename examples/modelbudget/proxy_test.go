package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// With the API's key, and with or without a Content-Length.
func TestProxy_Request_ArrivesUnchanged(t *testing.T) {
	t.Setenv("UPSTREAM_API_KEY", "upstream")
	for _, c := range []struct{ path, body, want string }{
		{chat, `{ "b": 1.50, "a": "<&>é", "stream": false }`, ""},
		{messages, `{"stream":true}`, ""},
		{"/v1/responses", `{"stream":true}`, ""},
		{chat, `{"stream":true,"a":"<&>"}`, `{"a":"<&>","stream":true,"stream_options":{"include_usage":true}}`},
		{chat, `{"stream":true,"stream_options":{"x":1,"include_usage":false}}`,
			`{"stream":true,"stream_options":{"include_usage":true,"x":1}}`},
		{chat, `{"stream":true,"stream_options":null}`, `{"stream":true,"stream_options":{"include_usage":true}}`},
		{chat, `{"stream":true, "stream_options":{"include_usage":true}}`, ""},
	} {
		for _, chunked := range []bool{false, true} {
			p := behind(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				assert.EqualValues(t, len(body), r.ContentLength)
				want := c.want
				if want == "" {
					want = c.body
				}
				assert.Equal(t, want, string(body))
				if c.path == messages {
					assert.Equal(t, "[] [upstream]", fmt.Sprint(r.Header["Authorization"], r.Header["X-Api-Key"]))
				} else {
					assert.Equal(t, "[Bearer upstream] []", fmt.Sprint(r.Header["Authorization"], r.Header["X-Api-Key"]))
				}
				assert.Empty(t, r.Header["Cookie"])
				assert.Empty(t, r.Header["Upgrade"])
				assert.Equal(t, []string{"2023-06-01"}, r.Header["Anthropic-Version"])
				w.Header().Set("X-Ratelimit-Remaining-Tokens", "99999")
				w.Header().Set("Anthropic-Ratelimit-Tokens-Remaining", "99999")
				fmt.Fprint(w, "answered")
			}))
			var body io.Reader = strings.NewReader(c.body)
			if chunked {
				body = struct{ io.Reader }{body} // net/http does not know its length
			}
			r := p.request(c.path, body)
			for name, value := range map[string]string{"X-Api-Key": "sk-alice", "Cookie": "a=b", "Connection": "Upgrade",
				"Upgrade": "websocket", "Anthropic-Version": "2023-06-01", "Accept-Encoding": "gzip, br"} {
				r.Header.Set(name, value)
			}
			resp, text := p.send(r)
			assert.Equal(t, "answered", text)
			assert.Empty(t, resp.Header["X-Ratelimit-Remaining-Tokens"])
			assert.Empty(t, resp.Header["Anthropic-Ratelimit-Tokens-Remaining"])
			assert.Equal(t, []string{`"requests";q=10;w=60`, `"tokens";q=2000;w=60`}, resp.Header["Ratelimit-Policy"])
			assert.Equal(t, `"requests";r=9;t=6`, resp.Header["Ratelimit"][0])
			assert.Regexp(t, `^"tokens";r=18[0-9]{2}$`, resp.Header["Ratelimit"][1])
		}
	}
}

// Byte for byte, except for a usage that the client did not request.
func TestStream_Events_ArriveOneByOne(t *testing.T) {
	for asks, hidden := range map[string]bool{`{"stream":true}`: true,
		`{"stream":true,"stream_options":{"include_usage":true}}`: false} {
		next := make(chan string)
		p := behind(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			for event := range next {
				fmt.Fprint(w, event)
				w.(http.Flusher).Flush()
			}
		}))
		resp, err := p.Client().Transport.RoundTrip(p.request(chat, strings.NewReader(asks)))
		require.NoError(t, err)
		reader := bufio.NewReader(resp.Body)
		for _, event := range []string{": a comment\r\n\r\n", "event: x\nid: 7\ndata: {\"choices\":[{}]}\n\n",
			"data:{\"choices\":[{}],\n data: \"usage\":null}\n\n", "retry: 10\n\n"} {
			next <- event // after the client received the previous one
			got := make([]byte, len(event))
			_, err := io.ReadFull(reader, got)
			assert.NoError(t, err)
			assert.Equal(t, event, string(got))
		}
		const usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n"
		next <- usage
		next <- "data: [DONE]"
		close(next)
		rest, err := io.ReadAll(reader)
		assert.NoError(t, err)
		resp.Body.Close()
		want := usage + "data: [DONE]"
		if hidden {
			want = "data: [DONE]"
		}
		assert.Equal(t, want, string(rest))
		assert.Equal(t, [2]int64{1, 3}, p.cost())
	}
}

func TestStream_AnySplit_IsTheSameAndCostsTheSame(t *testing.T) {
	long := "data: {\"x\":\"" + strings.Repeat("x", 3<<19) + "\"}\n\n"
	text := "\n\n\r\n: c\n\ndata: {\"choices\":[{}]}\r\n\r\n" + long +
		"data: {\"choices\":[{}],\"usage\":{\"prompt_tokens\":5}}" +
		"\n\ndata: {\"usage\":{\"completion_tokens\":7}}\n\nevent: end"
	for name, reader := range map[string]io.Reader{
		"at once": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text)),
		"halves":         iotest.HalfReader(strings.NewReader(text)),
		"with the error": iotest.DataErrReader(strings.NewReader(text)),
	} {
		var got int64 = -1
		s := newStream(io.NopCloser(reader), &bill{input: 100, hideUsage: true}, func(tokens int64) { got = tokens })
		read, err := io.ReadAll(s)
		assert.NoError(t, err, name)
		assert.True(t, text == string(read), "%s: %d bytes of %d", name, len(read), len(text))
		assert.EqualValues(t, -1, got, name)
		assert.NoError(t, s.Close())
		assert.EqualValues(t, 12, got, name)
	}
}

func TestDocument_TooLong_PassesAndCostsTheEstimate(t *testing.T) {
	text := `{"usage":{"prompt_tokens":1},"x":"` + strings.Repeat("x", maxKept) + `"}`
	d := &document{ReadCloser: io.NopCloser(strings.NewReader(text)), settle: func(int64) { t.Error("settled") }}
	read, err := io.ReadAll(d)
	assert.NoError(t, err)
	assert.True(t, text == string(read))
	assert.NoError(t, d.Close())
	assert.LessOrEqual(t, d.kept.Len(), maxKept)
}

// It leaves no state in Redis.
func TestUsers_UnknownKey_Is401(t *testing.T) {
	p := behind(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it got to the API") }))
	for _, header := range [][2]string{{"X", ""}, {"Authorization", "sk-alice"}, {"Authorization", "Bearer "},
		{"X-Api-Key", "sk-eve"}, {"X-Api-Key", "SK-ALICE"}, {"Authorization", "Basic c2stYWxpY2U="}} {
		r := p.request(messages, strings.NewReader("{}"))
		r.Header = http.Header{header[0]: {header[1]}}
		resp, body := p.send(r)
		assert.Equal(t, 401, resp.StatusCode, header)
		assert.JSONEq(t,
			`{"type":"error","error":{"type":"authentication_error","message":"There is no user with this key."}}`, body)
	}
	assert.Empty(t, p.redis.Keys())
}

func TestProxy_OtherPaths_AreNotForwarded(t *testing.T) {
	p := behind(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Error("arrived:", r.URL.Path) }))
	for _, path := range []string{"/", "/v1/files", "/v1/chat/completions/", "/v1%2Fmessages", "/V1/messages",
		"/v1/messages/batches", "/v1/messages;x"} {
		resp, _ := p.ask(path, "{}")
		assert.Equal(t, 404, resp.StatusCode, path)
	}
	for _, path := range []string{"//v1/messages", "/v1/./messages", "/v1/x/../messages"} {
		resp, _ := p.ask(path, "{}")
		assert.Equal(t, 3, resp.StatusCode/100, path) // ServeMux redirects
	}
	assert.Equal(t, [2]int64{0, 0}, p.cost())
}

// In the API's format; each user has limits of its own.
func TestRefuse_OverTheLimitOfRequests_Is429(t *testing.T) {
	p := behind(t, document200(`{"usage":{"prompt_tokens":1,"completion_tokens":1}}`))
	for range requests {
		resp, _ := p.ask(chat, "{}")
		require.Equal(t, 200, resp.StatusCode)
	}
	resp, body := p.ask(chat, "{}")
	assert.Equal(t, 429, resp.StatusCode)
	assert.Equal(t, "6", resp.Header.Get("Retry-After"))
	assert.JSONEq(t,
		`{"error":{"type":"rate_limit_error","message":"The request is over the limit of 10 requests per minute. Retry in 6s."}}`, body)
	r := p.request(chat, strings.NewReader("{}"))
	r.Header.Set("Authorization", "Bearer sk-bob")
	resp, _ = p.send(r)
	assert.Equal(t, 200, resp.StatusCode, "bob")
}

func TestRefuse_OverTheLimitOfTokens_ReleasesTheRequest(t *testing.T) {
	p := behind(t, document200(`{}`)) // without a usage, so the estimates stand
	p.ask(chat, `{"max_tokens":1990}`)
	require.Equal(t, [2]int64{1, 1995}, p.cost())
	for range 2 * requests {
		resp, body := p.ask(messages, `{"max_tokens":99}`)
		require.Equal(t, 429, resp.StatusCode)
		assert.Equal(t, "3", resp.Header.Get("Retry-After"))
		assert.Empty(t, resp.Header["X-Should-Retry"])
		assert.JSONEq(t,
			`{"type":"error","error":{"type":"rate_limit_error","message":"The request is over the limit of 2000 tokens per minute. Retry in 2.97s."}}`, body)
	}
	resp, body := p.ask(messages, `{"max_tokens":1e9}`)
	assert.Equal(t, 429, resp.StatusCode)
	assert.Equal(t, []string{"false"}, resp.Header["X-Should-Retry"])
	assert.Empty(t, resp.Header["Retry-After"])
	assert.Contains(t, body, "more than the budget of a minute")
	assert.Equal(t, [2]int64{1, 1995}, p.cost())
}

func TestSettle_MoreThanTheBudget_IsOwed(t *testing.T) {
	p := behind(t, document200(`{"usage":{"prompt_tokens":5000}}`))
	p.ask(chat, `{}`)
	resp, _ := p.ask(chat, `{}`)
	assert.Equal(t, 429, resp.StatusCode)
	assert.Equal(t, "94", resp.Header.Get("Retry-After")) // 3000 are owed, and 101 wanted, of 2000 a minute
}

func TestRedis_Down_FailureModeDecides(t *testing.T) {
	for mode, want := range map[string]int{"open": 200, "closed": 503, "0.5": 200} {
		p := behind(t, document200(`{"usage":{"prompt_tokens":1}}`), "-redis-down", mode, "-redis-timeout", "2s")
		p.ask(messages, "{}") // connected
		p.redis.Close()
		for range 3 {
			resp, body := p.ask(messages, "{}")
			assert.Equal(t, want, resp.StatusCode)
			if want == 503 {
				assert.JSONEq(t,
					`{"type":"error","error":{"type":"overloaded_error","message":"Requests cannot be admitted at the moment."}}`,
					body)
			}
		}
		for _, change := range []string{"up=false", "up=true"} {
			require.Eventually(t, func() bool {
				p.ask(messages, "{}")
				return strings.Contains(p.log.String(), change)
			}, time.Minute, 10*time.Millisecond)
			if change == "up=false" {
				require.NoError(t, p.redis.Restart())
			}
		}
	}
}
