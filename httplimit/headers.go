package httplimit

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Names of header fields in the canonical form of net/http.
const (
	policyField = "Ratelimit-Policy"
	limitField  = "Ratelimit"
	retryField  = "Retry-After"
	typeField   = "Content-Type"
)

var (
	threeFields  = [3]string{"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset"}
	xLimitFields = [3]string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}
)

// setHeaders sets the headers of a decision and of those before it, and those of a problem document. The
// handler, an inner Middleware or an upstream may have set the same fields of a response with this status.
func setHeaders(h http.Header, v *visit, status int, document bool) {
	denied := NoHeaders // the style of a denial with numbers
	if !v.Passes() && v.Result == limit.Rejected && v.Decision.Limit > 0 {
		denied = HeaderStyle(v.Settings.Headers)
	}
	var used map[string]bool // names of the draft's items; nil without other items
	if v.Before != nil || len(h[policyField])+len(h[limitField]) > 0 {
		used = itemNames(h)
	}
	for last := v; v != nil; v = v.Before {
		style := HeaderStyle(v.Settings.Headers)
		keeps := status == http.StatusTooManyRequests || v != last && style == denied
		if !v.Shadow && style != NoHeaders || !v.Passes() {
			setFields(h, style, v, keeps, used)
		}
	}
	if document {
		h[typeField] = []string{"application/problem+json"}
	}
}

// itemNames returns the names of the items in the draft's fields. There may be thousands, of an upstream.
func itemNames(h http.Header) map[string]bool {
	names := make(map[string]bool)
	for _, text := range slices.Concat(h[policyField], h[limitField]) {
		for _, item := range splitQuoted(text, ',') {
			if name, err := strconv.Unquote(strings.Trim(splitQuoted(item, ';')[0], " \t")); err == nil {
				names[name] = true
			}
		}
	}
	return names
}

// setFields sets the fields of one decision. With keeps, those of a style are of a denial if they are there, and stay.
func setFields(h http.Header, style HeaderStyle, v *visit, keeps bool, used map[string]bool) {
	var after time.Duration
	if !v.Passes() {
		after = v.Settings.Spread.Add(v.RetryAfter())
	}
	switch numbers := v.Decision.Limit > 0; {
	case v.Result != limit.Acquired && v.Result != limit.Rejected:
	case style == Draft11:
		if used != nil {
			v.Description = v.Description.Distinct(max(1, len(v.Each)), used)
		}
		if numbers || !v.Local && v.Each == nil && len(v.Description.Policies) > 0 {
			addFirst(h, policyField, quotas(v))
		}
		if numbers {
			addFirst(h, limitField, limits(v))
		}
	case style == ThreeHeaders:
		if d, denied := rateOf(v); d.Limit > 0 {
			setThree(h, threeFields, d, denied, keeps, gate.RoundUp(resetOf(v, d, denied, after), time.Second))
		}
	case style == XRateLimit:
		if d, denied := rateOf(v); d.Limit > 0 {
			setThree(h, xLimitFields, d, denied, keeps, v.At.Add(resetOf(v, d, denied, after)).Add(time.Second-1).Unix())
		}
	}
	if after > 0 {
		setNumber(h, retryField, gate.RoundUp(after, time.Second))
	}
}

// addFirst adds items of a list: those of an outer Middleware are first, those of an upstream last.
func addFirst(h http.Header, name, items string) {
	if items != "" {
		h[name] = append([]string{items}, h[name]...)
	}
}

func setNumber(h http.Header, name string, n int64) { h[name] = []string{strconv.FormatInt(n, 10)} }

// quotas returns RateLimit-Policy, which lacks policies of unknown quotas.
func quotas(v *visit) string {
	d := v.Description
	text := make([]byte, 0, 64)
	switch {
	case len(v.Each) > 0:
		for i, each := range v.Each {
			if hasQuota(v, i) {
				text = appendPolicy(text, d.Of(i), each.Limit)
			}
		}
	case !v.Local && len(d.Policies) > 1: // the decision is about one of them
		single := d.Single(v.Decision)
		for i := range d.Policies {
			quota := d.Of(i).Quota
			if i == single {
				quota = cmp.Or(v.Decision.Limit, quota)
			}
			if quota > 0 {
				text = appendPolicy(text, d.Of(i), quota)
			}
		}
	default:
		of := d.Of(d.Single(v.Decision))
		quota := cmp.Or(v.Decision.Limit, of.Quota)
		if quota > 0 || v.Outcome.Err == nil { // without an error, 0 is the limit
			text = appendPolicy(text, of, quota)
		}
	}
	return string(text)
}

func appendPolicy(text []byte, of *policy.Description, quota int64) []byte {
	text = appendItem(text, of.Shown)
	text = appendNumber(text, ";q=", quota)
	if of.Refill == policy.Held {
		text = append(text, `;qu="concurrent-requests"`...)
	}
	if of.Window > 0 && of.Window%time.Second == 0 {
		text = appendNumber(text, ";w=", int64(of.Window/time.Second))
	}
	return text
}

// appendItem appends the name of an item of a list, a string of a structured field (RFC 9651).
func appendItem(text []byte, name string) []byte {
	if len(text) > 0 {
		text = append(text, ", "...)
	}
	return strconv.AppendQuote(text, name)
}

// appendNumber appends a parameter, clamped to the 15 digits of structured fields.
func appendNumber(text []byte, parameter string, n int64) []byte {
	return strconv.AppendInt(append(text, parameter...), min(n, 999_999_999_999_999), 10)
}

// limits returns RateLimit. For each policy, r is the remaining permits, and t the seconds during
// which they do not grow. A t that is unknown or below a second is left out. No t is later than
// Retry-After.
func limits(v *visit) string {
	text, share := make([]byte, 0, 64), 0.0
	if v.Local {
		share = float64(v.Ask.Mode)
	}
	if len(v.Each) == 0 {
		name := v.Description.Of(v.Description.Single(v.Decision)).Shown
		text = appendLimit(text, name, v.Decision.Remaining, v.Description.Until(&v.Outcome, share, 0), v.Decision.RetryAfter)
	}
	for i, d := range v.Each {
		if !hasQuota(v, i) {
			continue
		}
		window := v.Description.Until(&v.Outcome, share, i)
		text = appendLimit(text, v.Description.Of(i).Shown, d.Remaining, window, v.Decision.RetryAfter)
	}
	return string(text)
}

// hasQuota reports whether a policy has one: a Pause has none.
func hasQuota(v *visit, i int) bool {
	return v.Each[i].Limit > 0 || v.Description.Of(i).Quota > 0
}

func appendLimit(text []byte, name string, remaining int64, window, retry time.Duration) []byte {
	text = appendItem(text, name)
	text = appendNumber(text, ";r=", remaining)
	t := int64(window / time.Second)
	if retry > 0 {
		t = min(t, gate.RoundUp(retry, time.Second))
	}
	if t > 0 {
		text = appendNumber(text, ";t=", t)
	}
	return text
}

// setThree sets the three fields of the older styles, which describe one policy: the one that denied,
// or the one with the fewest permits left. Those that a handler has set count too.
func setThree(h http.Header, names [3]string, d rratelimiter.Decision, denied, keeps bool, reset int64) {
	if inside := h[names[1]]; !denied && len(inside) > 0 {
		left, err := strconv.ParseInt(inside[0], 10, 64)
		if keeps || err == nil && left <= d.Remaining {
			return
		}
	}
	setNumber(h, names[0], d.Limit)
	setNumber(h, names[1], d.Remaining)
	setNumber(h, names[2], reset)
}

// rateOf returns the decision that the older styles show, and whether it is a denial. They have no place for a quota
// without a time, so it leaves out permits that requests hold. Its Limit is 0 if there is nothing else.
func rateOf(v *visit) (d rratelimiter.Decision, denied bool) {
	d, denied = v.Decision, v.Result == limit.Rejected
	if len(v.Each) == 0 {
		if v.Description.Of(v.Description.Single(d)).Refill == policy.Held {
			d.Limit = 0
		}
		return d, denied
	}
	var rates []rratelimiter.Decision
	held := false
	for i, one := range v.Each {
		if v.Description.Of(i).Refill == policy.Held {
			held = true
		} else if one.Limit > 0 || !one.Allowed {
			rates = append(rates, one)
		}
	}
	switch {
	case !held:
		return d, denied
	case len(rates) == 0:
		return rratelimiter.Decision{}, denied
	}
	d = rates[outage.Shown(rates)]
	return d, denied && !d.Allowed
}

// resetOf returns when Remaining changes: for a denied request after the time of its Retry-After,
// else when all permits of the reported policy are free.
func resetOf(v *visit, shown rratelimiter.Decision, denied bool, retryAfter time.Duration) time.Duration {
	if denied {
		return max(retryAfter, time.Second)
	}
	for _, d := range v.Each {
		if d.Limit == shown.Limit && d.Remaining == shown.Remaining {
			return d.ResetAfter
		}
	}
	return shown.ResetAfter
}
