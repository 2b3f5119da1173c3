package rls_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/rules/rls"
)

// hashedValues has hash_value with each way by which a descriptor gets its limit. Each value that
// must not surface begins with "secret".
const hashedValues = `
domain: x
slot_by: key
descriptors:
  - {key: key, value: secret-gold, rate_limit: {unit: year, requests_per_unit: 2}} # by the rule of the key
  - {key: key, hash_value: true, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: key, value: secret-ban, hash_value: true, rate_limit: {unit: year, requests_per_unit: 0}}
  - {key: key, value: secret-free, hash_value: true, rate_limit: {unlimited: true}}
  - {key: named, value: secret-one, hash_value: true, value_to_metric: true, rate_limit: {unit: year,
	requests_per_unit: 1}}
  - {key: wild, value: secret-*, hash_value: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: shared, value: secret-*, hash_value: true, share_threshold: true, rate_limit: {unit: year,
	requests_per_unit: 1}}
  - key: path
    value_to_metric: true
    descriptors: [{key: key, value: secret-deep, hash_value: true, rate_limit: {unit: year, requests_per_unit: 1}}]
  - key: tenant
    value: secret-tenant
    hash_value: true
    descriptors: [{key: path, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 1}}]
`

// places collects what a server shows, by place.
type places struct {
	log   bytes.Buffer
	texts map[string]string
}

func (p *places) add(place, text string) { p.texts[place] += text + "\n" }

// check fails for each place that has a secret.
func (p *places) check(t testing.TB) {
	t.Helper()
	p.add("log", p.log.String())
	for place, text := range p.texts {
		assert.NotContains(t, text, "secret", place)
	}
}

// observe records the names of limiters, which an Observer and the spans of otellimit have.
func (p *places) observe() rratelimiter.Option {
	return rratelimiter.WithObserver(&rratelimiter.Observer{
		Decision:  func(_ context.Context, i rratelimiter.DecisionInfo) { p.add("trace", fmt.Sprintf("%+v", i)) },
		RedisCall: func(_ context.Context, i rratelimiter.RedisCallInfo) { p.add("trace", fmt.Sprintf("%+v", i)) },
	})
}

// TestHashValue_Values_SurfaceNowhere but in requests and files.
func TestHashValue_Values_SurfaceNowhere(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, _ *rratelimiter.Client) {
		shown := &places{texts: make(map[string]string)}
		client := rratelimiter.New(f.Conn, shown.observe())
		var dir string
		s := newServer(t, client, hashedValues, func(c *rls.Config) {
			dir, c.Headers, c.Metadata = c.Path, true, true
			c.Log = slog.New(slog.NewTextHandler(&shown.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		send := func(text string) string {
			asked := request(t, text)
			answer, err := s.ShouldRateLimit(context.Background(), asked)
			if err != nil {
				shown.add("error", err.Error())
				return "error"
			}
			shown.add("response", answer.String())
			return strings.Fields(summary(answer, nil))[0]
		}
		get := func(method, path, body string) {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(method, path, strings.NewReader(body))
			s.Handler().ServeHTTP(w, r)
			shown.add(path, fmt.Sprint(w.Header(), w.Body))
		}
		all := map[string][]string{
			"x | key=secret-1": {"OK", "OVER"}, "x | key=secret-2": {"OK", "OVER"}, "x | key=secret-gold": {"OK", "OK", "OVER"},
			"x | key=secret-ban": {"OVER"}, "x | key=secret-free": {"OK"}, "x | named=secret-one": {"OK", "OVER"},
			"x | wild=secret-1": {"OK", "OVER"}, "x | shared=secret-1": {"OK", "OVER"},
			"x | path=a key=secret-deep": {"OK", "OVER"}, "x | tenant=secret-tenant path=a": {"OK", "OVER"},
			// Limits that the request brings, and descriptors that no rule matches as a whole.
			"x | key=secret-3 1/hour": {"OK", "OVER"}, "x | key=secret-gold 3/hour": {"OK"},
			"x | named=secret-other 1/hour":  {"OK", "OVER"},
			"x | key=secret-4 more=a 1/hour": {"OK", "OVER"}, "x | path=a key=secret-5 more=b 1/hour": {"OK", "OVER"},
			"x | shared=secret-9 1/hour": {"OK", "OVER"}, "x | shared=secret-8 1/hour": {"OK"},
			"x | named=secret-none": {"OK"}, "x | key=secret-6 more=a": {"OK"}, "x | key=secret-7 +0": {"OK"},
		}
		for ask, want := range all {
			for _, code := range want {
				assert.Equal(t, code, send(ask), ask)
			}
		}
		for range 2 {
			get(http.MethodPost, "/json", `{"domain": "x", "descriptors": [{"entries": [{"key": "key", "value": "secret-json"}]}]}`)
		}
		sum := hashOf("secret-1")
		assert.Contains(t, f.Redis.Dump(), hex.EncodeToString(sum))
		shown.add("Redis", f.Redis.Dump())

		// A key of Redis with another type, an outage, and a file with mistakes.
		for _, key := range f.Redis.Keys() {
			require.NoError(t, f.Conn.Do(t.Context(), f.Conn.B().Set().Key(key).Value("hello").Build()).Error())
		}
		assert.Equal(t, "error", send("x | key=secret-1"))
		f.Redis.SetError("LOADING")
		assert.Equal(t, "error", send("x | key=secret-1"))
		get(http.MethodPost, "/json", `{"domain": "x", "descriptors": [{"entries": [{"key": "key", "value": "secret-json"}]}]}`)
		f.Redis.SetError("")
		for _, mistake := range []string{
			"  - {key: key, value: secret-gold}\n", "  - {key: key, value: secret-gold, share_threshold: true}\n",
			"  - {key: wild, value: secret-*, share_threshold: maybe}\n", "  - {key: k, hash_value: true, value: [secret]}\n",
			"  - {key: late, value: secret}\n  - {key: late, value: secret}\n  - {key: late, hash_value: true}\n",
			"  - {key: late, value: secret}\n  - {key: late, value: secret}\n  - {key: late, hash_value: true, overdraw: maybe}\n",
		} {
			text := hashedValues + mistake
			require.NoError(t, os.WriteFile(filepath.Join(dir, "0.yaml"), []byte(text), 0o600))
			err := s.Reload()
			require.Error(t, err)
			shown.add("mistakes", err.Error())
		}
		_, err := rls.Load(folder(t, hashedValues, hashedValues), true)
		require.Error(t, err)
		shown.add("mistakes", err.Error())

		get(http.MethodGet, "/metrics", "")
		get(http.MethodGet, "/rlconfig", "")
		assert.Contains(t, shown.texts["/metrics"], `total_hits{domain="x",key1="key"} `)
		assert.Contains(t, shown.texts["/rlconfig"], "x.named_"+hex.EncodeToString(hashOf("secret-one"))+": unit=YEAR")
		shown.check(t)
	})
}

// hashOf returns the first 128 bits of a text's SHA-256.
func hashOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:16]
}

// TestHashValue_KeyOfOneLevel_IsOfAllItsRules, and of no other level.
func TestHashValue_KeyOfOneLevel_IsOfAllItsRules(t *testing.T) {
	rules, err := rls.Load(folder(t, `
domain: x
descriptors:
  - {key: key, value: gold, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: key, hash_value: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: path, value: /a, descriptors: [{key: key, value: gold, rate_limit: {unit: day, requests_per_unit: 2}}]}
`, `
domain: x
descriptors:
  - {key: other, value: plain, rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: key, value: silver, rate_limit: {unit: day, requests_per_unit: 4}}
`), true)
	require.NoError(t, err)
	got := rules.String()
	assert.Contains(t, got, fmt.Sprintf("x.key_%x: unit=DAY requests_per_unit=5", hashOf("gold")))
	assert.Contains(t, got, fmt.Sprintf("x.key_%x: unit=DAY requests_per_unit=4", hashOf("silver")))
	assert.Contains(t, got, "x.path_/a.key_gold: unit=DAY requests_per_unit=2")
	assert.Contains(t, got, "x.other_plain: unit=DAY requests_per_unit=3")
}
