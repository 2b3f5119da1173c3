package main

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	chat     = "/v1/chat/completions"
	messages = "/v1/messages"
)

// answer returns an API with one answer.
func answer(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func document200(body string) http.HandlerFunc { return answer(200, "application/json", body) }

func stream200(events ...string) http.HandlerFunc {
	return answer(200, "text/event-stream; charset=utf-8", "data: "+strings.Join(events, "\n\ndata: ")+"\n\n")
}

// The final costs in requests and tokens.
func TestSettle_Answers_CostTheirUsage(t *testing.T) {
	const body = `{"messages":[]}`
	estimate := estimateOf(body)
	const started = `{"type":"message_start","message":{"usage":{"input_tokens":30,"cache_creation_input_tokens":4,"cache_read_input_tokens":500,"output_tokens":1}}}`
	for name, c := range map[string]struct {
		path, body string
		api        http.HandlerFunc
		requests   int64
		tokens     int64
	}{
		"less": {chat, body,
			document200(`{"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`), 1, 7},
		"more":         {chat, body, document200(`{"usage":{"prompt_tokens":300,"completion_tokens":400}}`), 1, 700},
		"nothing used": {chat, body, document200(`{"usage":{}}`), 1, 0},
		"Anthropic's": {messages, body,
			document200(`{"usage":{"input_tokens":3,"output_tokens":4,"cache_creation_input_tokens":5,"cache_read_input_tokens":600}}`), 1, 12},
		"Responses": {"/v1/responses", body, document200(`{"usage":{"input_tokens":3,"output_tokens":4}}`), 1, 7},
		"embeddings": {"/v1/embeddings", body,
			document200(`{"data":[],"usage":{"prompt_tokens":3,"total_tokens":3}}`), 1, 3},
		"no usage":             {chat, body, document200(`{"choices":[]}`), 1, estimate},
		"no usage, embeddings": {"/v1/embeddings", body, document200(`{}`), 1, estimate - output},
		"no JSON":              {chat, body, document200(`{"usage":{"prompt_tokens":3`), 1, estimate},
		"below nothing":        {chat, body, document200(`{"usage":{"prompt_tokens":-300,"completion_tokens":4}}`), 1, 4},
		"refused there":        {chat, body, answer(400, "application/json", `{}`), 1, 0},
		"elsewhere":            {chat, body, answer(302, "text/html", `moved`), 1, 0},
		"overloaded":           {chat, body, answer(529, "application/json", `{}`), 0, 0},
		"busy":                 {chat, body, answer(429, "application/json", `{}`), 0, 0},
		"unanswered":           {chat, body, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, 0},
		"a stream": {chat, `{"stream":true}`,
			stream200(`{"choices":[{}]}`, `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":40}}`, `[DONE]`),
			1, 43},
		"usage so far": {chat, `{"stream":true}`,
			stream200(`{"choices":[{}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`,
				`{"choices":[{}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`), 1, 5},
		"a stream without usage": {chat, `{"stream":true}`, stream200(`{"choices":[{}]}`, `{"choices":[{}],"usage":null}`),
			1, 15/4 + 1 + 2},
		"Anthropic's stream": {messages, `{"stream":true}`,
			stream200(started, `{"type":"content_block_delta"}`, `{"type":"message_delta","usage":{"output_tokens":70}}`,
				`{"type":"message_stop"}`), 1, 104},
		"cut off": {messages, `{"stream":true}`,
			stream200(started, `{"type":"content_block_delta"}`, `{"type":"content_block_delta"}`), 1, 37},
		"Responses' stream": {"/v1/responses", `{"stream":true}`,
			stream200(`{"type":"response.created","response":{"usage":null}}`,
				`{"type":"response.completed","response":{"usage":{"input_tokens":3,"output_tokens":4}}}`), 1, 7},
		"no body":    {chat, "", document200(`{}`), 1, 0},
		"no object":  {chat, "[]", document200(`{}`), 1, 0},
		"null":       {chat, "null", document200(`{}`), 1, 0},
		"two":        {chat, "{}{}", document200(`{}`), 1, 0},
		"background": {"/v1/responses", `{"background":true}`, document200(`{}`), 1, 0},
		"too large":  {chat, `{"x":"` + strings.Repeat("x", mostBody) + `"}`, document200(`{}`), 1, 0},
		"zipped unasked": {chat, body, func(w http.ResponseWriter, r *http.Request) {
			assert.Equal(t, "identity", r.Header.Get("Accept-Encoding"))
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			fmt.Fprint(z, `{"usage":{"prompt_tokens":3,"completion_tokens":4}}`)
			z.Close()
		}, 1, 7},
	} {
		t.Run(name, func(t *testing.T) {
			p := behind(t, c.api)
			p.ask(c.path, c.body)
			assert.Equal(t, [2]int64{c.requests, c.tokens}, p.cost())
			assert.NotContains(t, p.log.String(), "not settled")
		})
	}
}

// The API returns no usage, so the estimate stands.
func TestEstimate_Bounds_AreIncluded(t *testing.T) {
	for body, most := range map[string]int64{
		`{}`: output, `{"max_tokens":7}`: 7, `{"max_completion_tokens":8}`: 8, `{"max_output_tokens":9}`: 9,
		`{"max_tokens":7,"max_completion_tokens":8}`: 8,
		`{"max_tokens":500,"Max_Tokens":1}`:          500, `{"max_tokens":500,"MAX_TOKENS":1}`: 500,
		`{"max_tokens":1,"max_tokens":500}`: 500, "{\"max\\u005ftokens\":500}": 500,
		`{"max_tokens":5e2}`: 500, `{"max_tokens":-5}`: output, `{"max_tokens":"5"}`: output, `{"max_tokens":null}`: output,
		`{"max_tokens":5,"n":3}`: 15, `{"n":2}`: 2 * output,
	} {
		p := behind(t, document200(`{}`))
		p.ask(chat, body)
		assert.Equal(t, [2]int64{1, int64(len(body))/4 + 1 + most}, p.cost(), body)
	}
}

// As in the README.
func TestModel_BuiltIn_Answers(t *testing.T) {
	p := behind(t, newModel(0))
	for i, path := range []string{chat, messages} {
		resp, body := p.ask(path, `{"messages":[{"role":"user","content":"Hello, my model!"}]}`)
		assert.Equal(t, 200, resp.StatusCode)
		assert.Contains(t, body, "Hello, my model!")
		_, body = p.ask(path, `{"stream":true,"messages":[{"role":"user","content":"Hello, my model!"}]}`)
		assert.Contains(t, body, "model! ")
		assert.Equal(t, [2]int64{int64(2*i + 2), int64(12*i + 12)}, p.cost())
	}
	for model, want := range map[string]int{"broken": 500, "busy": 429} {
		resp, _ := p.ask(chat, `{"model":"`+model+`"}`)
		assert.Equal(t, want, resp.StatusCode)
	}
	assert.Equal(t, [2]int64{4, 24}, p.cost())
}

func TestProxy_UpstreamDown_CostsNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	listener.Close()
	p := start(t, "http://"+listener.Addr().String())
	resp, body := p.ask(messages, `{}`)
	assert.Equal(t, 502, resp.StatusCode)
	assert.JSONEq(t, `{"type":"error","error":{"type":"api_error","message":"The API did not answer."}}`, body)
	r := p.request("/v1/models", nil)
	r.Method = http.MethodGet
	resp, _ = p.send(r)
	assert.Equal(t, 502, resp.StatusCode)
	assert.Equal(t, [2]int64{0, 0}, p.cost())
}

// A client that disconnects during a stream pays for the events so far; before it, for the estimate.
func TestSettle_ClientDisconnects_CostsThePart(t *testing.T) {
	for name, c := range map[string]struct {
		events int
		want   int64
	}{"before it begins": {0, estimateOf(`{"stream":true}`)}, "in the middle": {3, 15/4 + 1 + 3}} {
		t.Run(name, func(t *testing.T) {
			asked, gone := make(chan struct{}), make(chan struct{})
			p := behind(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(gone)
				_, _ = io.Copy(io.Discard, r.Body)
				for range c.events {
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprint(w, "data: {}\n\n")
					w.(http.Flusher).Flush()
				}
				close(asked)
				<-r.Context().Done()
			}))
			conn, err := net.Dial("tcp", p.Listener.Addr().String())
			require.NoError(t, err)
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: sk-alice\r\nContent-Length: 15\r\n\r\n{\"stream\":true}", chat)
			<-asked
			if c.events > 0 {
				reader := bufio.NewReader(conn)
				for n := 0; n < c.events; {
					line, err := reader.ReadString('\n')
					require.NoError(t, err)
					n += strings.Count(line, "data:")
				}
			}
			conn.Close()
			<-gone // the model's request is cancelled
			require.Eventually(t, func() bool { return strings.Contains(p.log.String(), "msg=request") }, time.Minute,
				time.Millisecond)
			require.Eventually(t, func() bool { return p.cost() == [2]int64{1, c.want} }, time.Minute, time.Millisecond, "%v",
				p.cost())
		})
	}
}
