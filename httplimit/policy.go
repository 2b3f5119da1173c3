package httplimit

import (
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Named gives a policy a name for clients, for [Each] and [Policies]. Without it, the name of a
// policy is its window, such as second, minute, day or 10s, or its kind: bucket, leaky, smooth.
//
// Named panics if the name is empty or not printable ASCII.
func Named(name string, policy limit.Policy) limit.Policy {
	named, err := guard.NewNamed(name, policy)
	if err != nil {
		panic("httplimit: Named: " + err.Error())
	}
	return named
}

// Describe returns a function that attaches a description of policies to a limiter. A chooser of
// yours returns the result of that function. Use Describe if requests have limiters with different
// policies; otherwise [Policies] is enough. For a policy that is unknown, such as the rate of a
// *[rratelimiter.Limiter] in Redis, pass nil, or nil with a name by [Named]. Describe once and
// reuse the function, since to describe policies takes some microseconds. Describe panics if a
// policy is invalid.
func Describe(policies ...limit.Policy) func(Limiter) Limiter {
	d := describe(guard.MustDescribe("httplimit: Describe", policies))
	return func(l Limiter) Limiter { return guard.WithDescription(l, d) }
}

// description describes the policies of a limiter to clients.
type description struct {
	guard.Description
	items   []string // the names as structured fields
	windows []string // the parameter w of each, "" for none
	header  string   // RateLimit-Policy
	problem []byte   // the problem document if the first policy denies
}

// describe adds what clients see.
func describe(described guard.Description) *description {
	d := &description{Description: described}
	for _, p := range d.Policies {
		window := ""
		if w := guard.Window(p); w > 0 && w%time.Second == 0 {
			window = ";w=" + strconv.FormatInt(clampInteger(int64(w/time.Second)), 10)
		}
		d.windows = append(d.windows, window)
	}
	var header []byte
	for i, name := range d.Names {
		d.items = append(d.items, quote(name))
		if i < len(d.Policies) {
			if i > 0 {
				header = append(header, ", "...)
			}
			header = d.appendPolicy(header, i, d.Quotas[i])
		}
	}
	d.header = string(header)
	d.problem = quotaExceeded(d.Names[:1])
	return d
}

// item returns the name of a policy as a string of a structured field.
func (d *description) item(i int) string {
	if i < len(d.items) {
		return d.items[i]
	}
	return quote(d.Name(i))
}

// appendPolicy appends an item of RateLimit-Policy.
func (d *description) appendPolicy(text []byte, i int, quota int64) []byte {
	text = append(text, d.item(i)...)
	text = append(text, ";q="...)
	text = strconv.AppendInt(text, clampInteger(quota), 10)
	if i < len(d.windows) {
		text = append(text, d.windows[i]...)
	}
	return text
}

// quote returns printable ASCII as a string of a structured field (RFC 9651), with quotes and
// backslashes escaped.
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// clampInteger limits a number to the 15 digits of structured fields.
func clampInteger(n int64) int64 { return min(n, 999_999_999_999_999) }
