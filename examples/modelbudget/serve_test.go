package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
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

func TestUsers_Invalid_AreErrors(t *testing.T) {
	us, err := parseUsers("alice one\n\n bob\ttwo \ncarol three")
	require.NoError(t, err)
	assert.Len(t, us, 3)
	for text, says := range map[string]string{"": "no users", "alice": "line 1 has 1 words",
		"a k\nb k": "line 2 has the key of another line", "a b c": "line 1 has 3 words"} {
		_, err := parseUsers(text)
		assert.ErrorContains(t, err, says)
	}
}

func TestFlags_Invalid_AreErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"-upstream", "api.openai.com"}, "is not a URL like https://host"},
		{[]string{"-upstream", "https://api.openai.com"}, "-upstream needs -users"},
		{[]string{"-users", "/nowhere"}, "no such file"},
		{[]string{"-tokens", "0"}, "-tokens 0"},
		{[]string{"-redis-down", "2"}, "is not open, closed or a share"},
		{[]string{"x"}, `"x" is not a flag`},
	} {
		assert.ErrorContains(t, run(t.Context(), c.args, io.Discard), c.says, "%v", c.args)
	}
}

func TestRun_Signal_Ends(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	out, done := new(redistest.Log), make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	go func() { done <- run(ctx, []string{"-listen", "localhost:0", "-redis-timeout", "1m"}, out) }()
	address := regexp.MustCompile(`^(http://\S+) -> .*: 60 requests and 20000 tokens per minute for each of 2 users, counted in memory`)
	require.Eventually(t, func() bool { return address.MatchString(out.String()) }, time.Minute, time.Millisecond)
	r, err := http.NewRequest(http.MethodPost, address.FindStringSubmatch(out.String())[1]+chat,
		strings.NewReader(`{"messages":[{"role":"user","content":"Hello, model!"}]}`))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer sk-alice")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	var got struct {
		Choices []struct{ Message struct{ Content string } }
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&got))
	resp.Body.Close()
	assert.Equal(t, "Hello, model!", got.Choices[0].Message.Content)
	stop()
	assert.NoError(t, <-done)
	assert.Contains(t, out.String(), "user=alice path=/v1/chat/completions estimated=1039 settled=4")
}
