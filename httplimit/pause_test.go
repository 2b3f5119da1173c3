package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// The fake clock begins at 2000-01-01 00:00 UTC, which is 946684800.
func TestPauseOn_FieldsOfProviders_AreRead(t *testing.T) {
	retry, quota, ours := httplimit.RetryAfter(), httplimit.QuotaReset(), httplimit.RateLimit
	const never, ms = time.Duration(1<<63 - 1), 1500 * time.Millisecond
	type test struct {
		asks    func(*http.Response) (time.Duration, bool)
		status  int
		fields  string
		pause   time.Duration
		refused bool
	}
	tests := map[string]test{
		"seconds":         {retry, 429, "Retry-After:  7 ", 7 * time.Second, true},
		"a fraction":      {retry, 429, "Retry-After: 1.5", 2 * time.Second, true},
		"a long fraction": {retry, 429, "Retry-After: 292.05", 293 * time.Second, true},
		"a date":          {retry, 503, "Retry-After: Sat, 01 Jan 2000 00:00:30 GMT", 30 * time.Second, true},
		"an old date":     {retry, 503, "Retry-After: Saturday, 01-Jan-00 00:00:30 GMT", 30 * time.Second, true},
		"a past date":     {retry, 429, "Retry-After: Sat, 01 Jan 1999 00:00:30 GMT", 0, true},
		"a Unix time": {retry, 429, "Retry-After: 1746136938 | Date: Thu, 01 May 2025 22:02:16 GMT",
			2 * time.Second, true},
		"a past Unix time": {retry, 429, "Retry-After: 1746136938 | Date: Thu, 01 May 2025 22:02:19 GMT", 0, true},
		"in milliseconds": {retry, 429, "Retry-After: 1746136938500 | Date: Thu, 01 May 2025 22:02:16 GMT",
			2500 * time.Millisecond, true},
		"a year":                   {retry, 429, "Retry-After: 31536000", 365 * 24 * time.Hour, true},
		"three years are no pause": {retry, 429, "Retry-After: 99999999", 99999999 * time.Millisecond, true},
		"in microseconds":          {retry, 429, "Retry-After: 946684807000000", 7 * time.Second, true},
		"in nanoseconds":           {retry, 429, "Retry-After: 946684807000000000", 7 * time.Second, true},
		"past, in nanoseconds":     {retry, 429, "Retry-After: 946684793000000000", 0, true},
		"Azure, as a Unix time":    {retry, 429, "Retry-After-Ms: 946684807000", 7 * time.Second, true},
		"Azure, zero":              {retry, 429, "Retry-After-Ms: 0", 0, true},
		"no unit is near":          {quota, 429, "X-RateLimit-Reset: 1500000000000000000000", never, true},
		"no int64":                 {retry, 429, "Retry-After: 99999999999999999999", never, true},
		"several": {retry, 429, "Retry-After: 2 | Retry-After: 5 | Retry-After: x",
			5 * time.Second, true},
		"joined":              {retry, 429, "Retry-After: 2, 5, 3", 5 * time.Second, true},
		"zero":                {retry, 429, "Retry-After: 0", 0, true},
		"below zero":          {retry, 429, "Retry-After: -7", 0, true},
		"no number":           {retry, 503, "Retry-After: soon", 0, true},
		"hexadecimal":         {retry, 503, "Retry-After: 0x10", 0, true},
		"without a field":     {retry, 429, "", 0, true},
		"503 without a field": {retry, 503, "", 0, true},
		"403 without a field": {httplimit.RetryAfter(403), 403, "", 0, false},
		"another status":      {retry, 403, "Retry-After: 7", 0, false},
		"chosen statuses":     {httplimit.RetryAfter(529), 529, "Retry-After: 7", 7 * time.Second, true},
		"not chosen":          {httplimit.RetryAfter(529), 429, "Retry-After: 7", 0, false},
		"Azure":               {retry, 429, "retry-after-ms: 1234.5 | Retry-After: 1", 1235 * time.Millisecond, true},

		"GitHub": {quota, 403, "X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 946684860",
			time.Minute, true},
		"GitHub, no permission":   {quota, 403, "X-RateLimit-Remaining: 4 | X-RateLimit-Reset: 946684860", 0, false},
		"GitHub, a secondary one": {httplimit.RetryAfter(403, 429), 403, "Retry-After: 60", time.Minute, true},
		"403 without fields":      {quota, 403, "", 0, false},
		"403 with Reset":          {quota, 403, "X-RateLimit-Reset: 946684860", 0, false},
		"429 with Reset":          {quota, 429, "X-RateLimit-Reset: 946684860", time.Minute, true},
		"OpenAI": {quota, 429, "x-ratelimit-remaining-tokens: 0 | x-ratelimit-reset-tokens: 6m0s",
			6 * time.Minute, true},
		"OpenAI, one of two": {quota, 429, "x-ratelimit-remaining-tokens: 9 | x-ratelimit-reset-tokens: 6m0s" +
			" | x-ratelimit-remaining-requests: 0 | x-ratelimit-reset-requests: 120ms", 120 * time.Millisecond, true},
		"OpenAI, none of two": {quota, 429, "x-ratelimit-remaining-tokens: 9 | x-ratelimit-reset-tokens: 6m0s",
			0, true},
		"Discord": {quota, 429, "X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 946684864.57 | X-RateLimit-Reset-After: 64.57",
			65 * time.Second, true},
		"Discord, left":          {quota, 403, "X-RateLimit-Remaining: 3 | X-RateLimit-Reset-After: 64.57", 0, false},
		"milliseconds, left":     {quota, 403, "X-RateLimit-Remaining: 3 | X-RateLimit-Reset-Ms: 1500", 0, false},
		"milliseconds of tokens": {quota, 403, "X-RateLimit-Remaining-Tokens: 0 | X-RateLimit-Reset-Tokens-Ms: 1500", ms, true},
		"milliseconds of tokens, left": {quota, 429, "X-RateLimit-Tokens-Remaining: 7 | X-RateLimit-Tokens-Reset-Ms: 1500",
			0, true},
		"milliseconds since 1970":     {quota, 403, "X-RateLimit-Remaining: 0 | X-RateLimit-Reset-Ms: 946684801500", ms, true},
		"microseconds since 1970":     {quota, 403, "X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 946684801500000", ms, true},
		"nanoseconds since 1970":      {quota, 403, "X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 946684801500000000", ms, true},
		"seconds of Microsoft":        {quota, 429, "X-Ms-RateLimit-Remaining: 0 | X-Ms-RateLimit-Reset: 2", 2 * time.Second, true},
		"seconds of items":            {quota, 429, "X-RateLimit-Remaining-Items: 0 | X-RateLimit-Reset-Items: 2", 2 * time.Second, true},
		"seconds of a field of items": {quota, 403, "X-RateLimit-Remaining-Items: 2 | X-RateLimit-Reset-Items: 2", 0, false},
		"three fields": {quota, 429, "RateLimit-Remaining: 0 | RateLimit-Reset: 30",
			30 * time.Second, true},
		"a date of RFC 3339": {quota, 429, "Anthropic-Ratelimit-Reset: 2000-01-01T00:00:07Z",
			7 * time.Second, true},
		"Okta, Twitter": {quota, 429, "X-Rate-Limit-Remaining: 0 | X-Rate-Limit-Reset: 946684830",
			30 * time.Second, true},
		"Okta, left":      {quota, 403, "X-Rate-Limit-Remaining: 3 | X-Rate-Limit-Reset: 946684830", 0, false},
		"with one hyphen": {quota, 403, "Rate-Limit-Remaining: 0 | Rate-Limit-Reset: 30", 30 * time.Second, true},
		"Anthropic": {quota, 429, "anthropic-ratelimit-tokens-remaining: 9 | anthropic-ratelimit-tokens-reset: " +
			"2000-01-01T00:05:00Z | anthropic-ratelimit-requests-remaining: 0 | " +
			"anthropic-ratelimit-requests-reset: 2000-01-01T00:00:07Z", 7 * time.Second, true},
		"draft 7":              {quota, 429, "RateLimit: limit=10, remaining=0, reset=2", 2 * time.Second, true},
		"draft 7, left":        {quota, 403, "RateLimit: limit=10, remaining=1, reset=2", 0, false},
		"draft 7, two fields":  {quota, 403, "RateLimit: remaining=0,reset=2 | RateLimit: remaining=0,reset=9", 9 * time.Second, true},
		"draft 11 is no quota": {quota, 403, `RateLimit: "minute";r=0;t=30`, 0, false},
		"a fraction is left":   {quota, 403, "X-RateLimit-Remaining: 0.5 | X-RateLimit-Reset: 9", 0, false},
		"nothing, as a fraction": {quota, 429, "X-RateLimit-Remaining: 0.0 | X-RateLimit-Reset: 9",
			9 * time.Second, true},
		"less than nothing":        {quota, 403, "X-RateLimit-Remaining: -1 | X-RateLimit-Reset: 9", 9 * time.Second, true},
		"no number is left":        {quota, 403, "X-RateLimit-Remaining: none | X-RateLimit-Reset: 9", 0, false},
		"a reset of no quota":      {quota, 200, "X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 946684860", 0, false},
		"a reset that is no time":  {quota, 429, "X-RateLimit-Reset: soon", 0, true},
		"this library":             {ours, 200, `RateLimit: "second";r=5;t=1, "minute";r=0;t=30`, 30 * time.Second, true},
		"this library, left":       {ours, 429, `RateLimit: "minute";r=1;t=30`, 0, false},
		"this library, without t":  {ours, 429, `RateLimit: "bucket";r=0`, 0, true},
		"this library, odd names":  {ours, 200, `RateLimit: "a,b;r=0;t=9"";r=1;t=30`, 0, false},
		"this library, two fields": {ours, 200, `RateLimit: "a";r=0;t=3 | RateLimit: "b"; r=0; t=5`, 5 * time.Second, true},
		"no field":                 {ours, 429, "", 0, false},
	}
	for _, name := range []string{"X-RateLimit-Reset-Ms", "x-ratelimit-reset-after-ms", "X-RateLimit-Reset-In-Ms",
		"X-RateLimit-ResetMs", "X-RateLimit-Reset_ms", "X-Rate-Limit-Reset-Millis", "X-RateLimit-Reset-Milliseconds",
		"X-RateLimitResetMs", "X-RateLimit-ResetAfterMs", "X-RateLimit-Reset-Time-Ms", "X-RateLimit-Ms-Reset"} {
		remaining := "X-RateLimit-Remaining: 0 | "
		if strings.Contains(name, "Rate-") {
			remaining = "X-Rate-Limit-Remaining: 0 | "
		}
		tests[name] = test{quota, 403, remaining + name + ": 1500", ms, true}
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pause, refused := c.asks(response(c.status, strings.Split(c.fields, " | ")...))
				assert.Equal(t, c.refused, refused)
				if c.pause == never {
					assert.Greater(t, pause, 100*365*24*time.Hour)
					return
				}
				assert.Equal(t, c.pause, pause)
			})
		})
	}
}

// inTurn answers requests with responses in turn, and the last one again.
func inTurn(responses ...*http.Response) http.RoundTripper {
	var n atomic.Int64
	return roundTrip(func(*http.Request) (*http.Response, error) {
		return responses[min(int(n.Add(1)), len(responses))-1], nil
	})
}

// response returns a response with fields of the form "Name: value".
func response(status int, fields ...string) *http.Response {
	resp := &http.Response{StatusCode: status, Header: make(http.Header), Body: http.NoBody}
	for _, field := range fields {
		if name, value, ok := strings.Cut(field, ": "); ok {
			resp.Header.Add(name, value)
		}
	}
	return resp
}

// The longest of the chosen functions counts, at most a minute or Most of the limiter's Pause.
func TestPauseOn_ChosenResponses_PauseAtMostThatLong(t *testing.T) {
	github := response(403, "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 946688400") // in an hour
	overloaded := httplimit.PauseOn(httplimit.RetryAfter(429, 529))
	chosen := httplimit.PauseOn(httplimit.RetryAfter(403), httplimit.QuotaReset())
	for name, c := range map[string]struct {
		resp  *http.Response
		most  time.Duration // of a Pause, if there is one
		opts  []httplimit.Option
		pause time.Duration
	}{
		"chosen":       {github, 0, []httplimit.Option{chosen}, time.Minute},
		"a Pause":      {github, 5 * time.Minute, []httplimit.Option{chosen}, 5 * time.Minute},
		"Anthropic":    {response(529, "Retry-After: 9"), 0, []httplimit.Option{overloaded}, 9 * time.Second},
		"none":         {response(429, "Retry-After: 9"), 0, []httplimit.Option{httplimit.PauseOn()}, 0},
		"a Pause of 1": {response(429, "Retry-After: 9"), time.Second, nil, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
				policies := []limit.Policy{hour(9), limit.Pause{Most: c.most}}
				if c.most == 0 {
					policies = policies[:1]
				}
				l := limit.New(client, "paid", policies...)
				transport := httplimit.Transport(inTurn(c.resp, response(200)), httplimit.All(l), c.opts...)
				begin := time.Now()
				for range 2 {
					_, err := transport.RoundTrip(request().WithContext(t.Context()))
					require.NoError(t, err)
				}
				assert.Equal(t, c.pause, time.Since(begin))
				time.Sleep(time.Second)
			})
		})
	}
}

// A response of GitHub with 403 pauses too. A hook of one's own counts refusals, and chooses a time for
// those without one.
func ExamplePauseOn() {
	client := connect()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "soon")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer upstream.Close()

	retry := httplimit.RetryAfter(403, 429, 503)
	refusal := func(resp *http.Response) (time.Duration, bool) {
		d, refused := retry(resp)
		if refused {
			fmt.Println("refused:", resp.Status, resp.Header["Retry-After"], d)
			d = max(d, 5*time.Second)
		}
		return d, refused
	}
	quota := limit.New(client, "github", limit.SlidingLog{Permits: 5000, Interval: time.Hour},
		limit.Pause{Most: time.Hour})
	limited := httplimit.Transport(nil, httplimit.All(quota), httplimit.PauseOn(refusal, httplimit.QuotaReset()))
	if resp, err := (&http.Client{Transport: limited}).Get(upstream.URL); err == nil {
		resp.Body.Close()
	}
	// Output: refused: 429 Too Many Requests [soon] 0s
}
