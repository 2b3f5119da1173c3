package ruleset

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
	"github.com/rratelimiter/rratelimiter/limit"
	"github.com/rratelimiter/rratelimiter/rules/internal/rulestest"
)

// TestFile_LongRequest_IsReadOnce: what a client chooses is read once for all rules, and a path that is
// longer than any program needs is not read at all. Who reads text copies it, so that the allocated
// bytes count the work.
func TestFile_LongRequest_IsReadOnce(t *testing.T) {
	const rule = "- {name: r%d, match: {pattern: '/{a}/', headers: {X-Kind: k}}, key: [ip, 'header:X-Key', 'path:a'], " +
		"limits: 1/s, " +
		"skip: {ranges: 198.51.100.0/24, paths: [/static/, '/{x...}']}}\n"
	rules := func(n int) *File {
		text := "match: all\naddress: {trusted: 192.0.2.0/24}\nrules:\n"
		for i := range n {
			text += fmt.Sprintf(rule, i)
		}
		return parsed(t, text)
	}
	one, hundred := rules(1), rules(100)
	r := request("GET http://example/" + strings.Repeat("/;", 3000))
	r.Host = strings.Repeat("A.", 2000) + "example"
	r.Header["X-Kind"] = append(make([]string, 10_000), " k ")
	r.Header["X-Forwarded-For"] = []string{strings.Repeat(",", 10_000) + "203.0.113.9"}
	decide := func(file *File, read func(*http.Request) *Request) uint64 {
		v := compile(file, offline, gate.Settings{})
		return rulestest.Allocated(func() { assert.Empty(t, v.choicesOf(read(r))) })
	}
	once := decide(one, one.HTTP)
	assert.Less(t, decide(hundred, hundred.HTTP), once+once/2, "of a hundred rules, beside %d bytes of one", once)

	v := compile(hundred, offline, gate.Settings{})
	refused := func(read func(*http.Request) *Request) uint64 {
		return rulestest.Allocated(func() {
			all := v.choicesOf(read(r))
			if assert.Len(t, all, 1) {
				assert.ErrorIs(t, all[0].Err, limit.ErrInvalidRequest)
			}
		})
	}
	path := "/" + strings.Repeat("/;", 450_000)
	r.URL.RawPath = path
	assert.Less(t, refused(hundred.HTTP), uint64(100_000))
	r.URL.Path, r.URL.RawPath = path, ""
	assert.Less(t, refused(hundred.HTTP), uint64(100_000))
	r.Header.Set("X-Forwarded-Uri", path)
	assert.Less(t, refused(hundred.Forwarded), uint64(100_000))
}

// TestFile_ManyHeaders_AreReadOnce for all headers that rules name.
func TestFile_ManyHeaders_AreReadOnce(t *testing.T) {
	r := request("GET /")
	for i := range 10_000 {
		r.Header.Add("Connection", fmt.Sprintf("option-%d", i))
		r.Header.Set(fmt.Sprintf("X_%d", i), "a")
	}
	decide := func(headers int) uint64 {
		text := "rules:\n"
		for i := range headers {
			text += fmt.Sprintf("- {name: r%d, match: {headers: {X-Header%d: a}}, key: all, limits: 1/s}\n", i, i)
		}
		file := parsed(t, text)
		v := compile(file, offline, gate.Settings{})
		return rulestest.Allocated(func() { assert.Empty(t, v.choicesOf(file.HTTP(r))) })
	}
	one := decide(1)
	assert.Less(t, decide(100), one+one/2, "for a hundred headers, beside %d bytes for one", one)
}
