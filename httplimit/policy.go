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
	known := mustDescribe("Describe", policies)
	return func(l Limiter) Limiter { return &described{l, known} }
}

// described is a limiter with a description of its policies.
type described struct {
	Limiter
	known *description
}

// description describes the policies of a limiter to clients.
type description struct {
	guard.Description
	items   []string // the names as structured fields
	windows []string // the parameter w of each, "" for none
	header  string   // RateLimit-Policy
	problem []byte   // the problem document if the first policy denies
}

// mustDescribe is describe, but panics if a policy is invalid.
func mustDescribe(caller string, policies []limit.Policy) *description {
	k := describe(policies)
	if err := k.Check(); err != nil {
		panic("httplimit: " + caller + ": " + err.Error())
	}
	return k
}

// describe returns the description of policies.
func describe(policies []limit.Policy) *description {
	k := &description{Description: guard.Describe(policies)}
	for _, p := range k.Policies {
		window := ""
		if w := guard.Window(p); w > 0 && w%time.Second == 0 {
			window = ";w=" + strconv.FormatInt(clampInteger(int64(w/time.Second)), 10)
		}
		k.windows = append(k.windows, window)
	}
	var header []byte
	for i, name := range k.Names {
		k.items = append(k.items, quote(name))
		if i < len(policies) {
			if i > 0 {
				header = append(header, ", "...)
			}
			header = k.appendPolicy(header, i, k.Quotas[i])
		}
	}
	k.header = string(header)
	k.problem = newProblem(quotaExceeded, k.Names[:1])
	return k
}

// item returns the name of a policy as a string of a structured field.
func (k *description) item(i int) string {
	if i < len(k.items) {
		return k.items[i]
	}
	return quote(k.Name(i))
}

// appendPolicy appends an item of RateLimit-Policy.
func (k *description) appendPolicy(text []byte, i int, quota int64) []byte {
	text = append(text, k.item(i)...)
	text = append(text, ";q="...)
	text = strconv.AppendInt(text, clampInteger(quota), 10)
	if i < len(k.windows) {
		text = append(text, k.windows[i]...)
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
