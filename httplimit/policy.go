package httplimit

import (
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Named gives a policy the name by which clients are told of it, for [Each] and [Policies]. Without it a policy is named by its
// window, as second, minute, day or 10s, or by its kind: bucket, leaky, smooth.
//
// Named panics where the name is empty or not printable ASCII.
func Named(name string, policy limit.Policy) limit.Policy {
	named, err := guard.NewNamed(name, policy)
	if err != nil {
		panic("httplimit: Named: " + err.Error())
	}
	return named
}

// Describe gives what tells [Middleware] and [Transport] the policies of limiters that a chooser of your own makes, in their order,
// where those of all requests are not the same ([Policies]): a chooser gives what Describe's func makes of a limiter. Where a policy
// is not known, as that of a *[rratelimiter.Limiter] whose rate is in Redis, nil stands in its place, with a name by [Named].
// To describe policies costs some microseconds, to use the description again nothing. Describe panics if a policy is invalid.
func Describe(policies ...limit.Policy) func(Limiter) Limiter {
	known := mustDescribe("Describe", policies)
	return func(l Limiter) Limiter { return &described{l, known} }
}

// described is a limiter, and what is known of its policies.
type described struct {
	Limiter
	known *known
}

// known is what clients are told of a limiter's policies.
type known struct {
	guard.Known
	items   []string // the names as structured fields have them
	windows []string // the parameter w of each, "" for none
	header  string   // RateLimit-Policy
	problem []byte   // the refusal by the first policy alone
}

// mustDescribe is describe that panics if a policy is invalid.
func mustDescribe(caller string, policies []limit.Policy) *known {
	k := describe(policies)
	if err := k.Check(); err != nil {
		panic("httplimit: " + caller + ": " + err.Error())
	}
	return k
}

// describe tells policies by their names.
func describe(policies []limit.Policy) *known {
	k := &known{Known: guard.Describe(policies)}
	for _, p := range k.Policies {
		window := ""
		if w := guard.Window(p); w > 0 && w%time.Second == 0 {
			window = ";w=" + strconv.FormatInt(whole(int64(w/time.Second)), 10)
		}
		k.windows = append(k.windows, window)
	}
	var header []byte
	for i, name := range k.Names {
		k.items = append(k.items, quoted(name))
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

// item is the name of a policy as a structured field's string.
func (k *known) item(i int) string {
	if i < len(k.items) {
		return k.items[i]
	}
	return quoted(k.Name(i))
}

// appendPolicy appends an item of RateLimit-Policy.
func (k *known) appendPolicy(text []byte, i int, quota int64) []byte {
	text = append(text, k.item(i)...)
	text = append(text, ";q="...)
	text = strconv.AppendInt(text, whole(quota), 10)
	if i < len(k.windows) {
		text = append(text, k.windows[i]...)
	}
	return text
}

// quoted is a text as a structured field's string (RFC 9651): of printable ASCII, with quotes and backslashes escaped.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// whole is a number as structured fields have them, of at most 15 digits.
func whole(n int64) int64 { return min(n, 999_999_999_999_999) }
