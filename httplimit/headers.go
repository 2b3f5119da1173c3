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

// setHeaders sets the headers of a decision and of those before it. The handler, an inner Middleware or an upstream may
// have set the same fields of a response with this status.
func setHeaders(h http.Header, v *visit, status int) {
	denied := NoHeaders // the style of a denial with numbers
	if !v.Answer.Passes() && v.Answer.Result == limit.Rejected && v.Answer.Decision.Limit > 0 {
		denied = HeaderStyle(v.Settings.Headers)
	}
	var used map[string]bool // names of the draft's items; nil without other items
	if v.Before != nil || len(h[policyField])+len(h[limitField]) > 0 {
		used = itemNames(h)
	}
	for last := v; v != nil; v = v.Before {
		style := HeaderStyle(v.Settings.Headers)
		keeps := status == http.StatusTooManyRequests || v != last && style == denied
		if !v.Answer.Shadow && style != NoHeaders || !v.Answer.Passes() {
			setFields(h, v, keeps, used)
		}
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
func setFields(h http.Header, v *visit, keeps bool, used map[string]bool) {
	var after time.Duration
	if !v.Answer.Passes() {
		after = v.Settings.Spread.Add(v.Answer.RetryAfter())
	}
	switch style := HeaderStyle(v.Settings.Headers); {
	case v.Answer.Result != limit.Acquired && v.Answer.Result != limit.Rejected:
	case style == Draft11:
		if used != nil {
			v.Description = v.Description.WithDistinctNames(max(1, len(v.Answer.Each)), used)
		}
		setDraft(h, v)
	case style == ThreeHeaders:
		if d := rateOf(v); d.Limit > 0 {
			setThree(h, threeFields, d, keeps, gate.RoundUp(resetOf(v, d, after), time.Second))
		}
	case style == XRateLimit:
		if d := rateOf(v); d.Limit > 0 {
			setThree(h, xLimitFields, d, keeps, v.At.Add(resetOf(v, d, after)).Add(time.Second-1).Unix())
		}
	}
	if after > 0 {
		setNumber(h, retryField, gate.RoundUp(after, time.Second))
	}
}

// setDraft sets RateLimit-Policy, which lacks policies of unknown quotas, and if the decision has numbers, RateLimit.
// There, r is the remaining permits, and t the seconds during which they do not grow. A t that is unknown or below a
// second is left out. No t is later than Retry-After.
func setDraft(h http.Header, v *visit) {
	a, d := &v.Answer, v.Description
	hasNumbers := a.Decision.Limit > 0
	if !hasNumbers && (a.Local || a.Each != nil || len(d.Policies) == 0) {
		return
	}
	decidedPolicy, share, n := d.IndexOf(a.Decision), 0.0, max(1, len(a.Each))
	if a.Local {
		share = float64(v.Settings.Mode)
	} else if a.Each == nil {
		n = max(n, len(d.Policies))
	}
	policies, limits := make([]byte, 0, 64), make([]byte, 0, 64)
	for i := range n {
		of, one, decided := d.Policy(i), a.Decision, hasNumbers && i == decidedPolicy
		if a.Each != nil {
			one, decided = a.Each[i], true
		}
		quota := of.Quota
		if decided {
			quota = cmp.Or(one.Limit, quota)
		}
		if quota == 0 && (len(a.Each) > 0 || n > 1 || a.Err != nil) { // without an error, 0 is the limit of one policy
			continue // a Pause, or an unknown one
		}
		policies = appendItem(policies, of.Shown, ";q=", quota)
		if of.Refill == policy.Held {
			policies = append(policies, `;qu="concurrent-requests"`...)
		}
		if of.Window > 0 && of.Window%time.Second == 0 {
			policies = appendNumber(policies, ";w=", int64(of.Window/time.Second))
		}
		if !decided {
			continue
		}
		limits = appendItem(limits, of.Shown, ";r=", one.Remaining)
		t := int64(d.Until(&a.Outcome, share, i) / time.Second)
		if retry := a.Decision.RetryAfter; retry > 0 {
			t = min(t, gate.RoundUp(retry, time.Second))
		}
		if t > 0 {
			limits = appendNumber(limits, ";t=", t)
		}
	}
	addFirst(h, policyField, policies)
	addFirst(h, limitField, limits)
}

// addFirst adds items of a list: those of an outer Middleware are first, those of an upstream last.
func addFirst(h http.Header, name string, items []byte) {
	if len(items) > 0 {
		h[name] = append([]string{string(items)}, h[name]...)
	}
}

// appendItem appends an item of a list, a string of a structured field (RFC 9651), with its first parameter.
func appendItem(text []byte, name, parameter string, n int64) []byte {
	if len(text) > 0 {
		text = append(text, ", "...)
	}
	return appendNumber(strconv.AppendQuote(text, name), parameter, n)
}

// appendNumber appends a parameter, clamped to the 15 digits of structured fields.
func appendNumber(text []byte, parameter string, n int64) []byte {
	return strconv.AppendInt(append(text, parameter...), min(n, 999_999_999_999_999), 10)
}

// setThree sets the three fields of the older styles, which describe one policy: the one that denied,
// or the one with the fewest permits left. Those that a handler has set count too.
func setThree(h http.Header, names [3]string, d rratelimiter.Decision, keeps bool, reset int64) {
	if inside := h[names[1]]; d.Allowed && len(inside) > 0 {
		left, err := strconv.ParseInt(inside[0], 10, 64)
		if keeps || err == nil && left <= d.Remaining {
			return
		}
	}
	setNumber(h, names[0], d.Limit)
	setNumber(h, names[1], d.Remaining)
	setNumber(h, names[2], reset)
}

func setNumber(h http.Header, name string, n int64) { h[name] = []string{strconv.FormatInt(n, 10)} }

// rateOf returns the decision that the older styles show. They have no place for a quota without a time, so it leaves
// out permits that requests hold. Its Limit is 0 if there is nothing else.
func rateOf(v *visit) rratelimiter.Decision {
	d := v.Answer.Decision
	if len(v.Answer.Each) == 0 {
		if v.Description.Policy(v.Description.IndexOf(d)).Refill == policy.Held {
			d.Limit = 0
		}
		return d
	}
	var rates []rratelimiter.Decision
	held := false
	for i, one := range v.Answer.Each {
		if v.Description.Policy(i).Refill == policy.Held {
			held = true
		} else if one.Limit > 0 || !one.Allowed {
			rates = append(rates, one)
		}
	}
	switch {
	case !held:
		return d
	case len(rates) == 0:
		return rratelimiter.Decision{}
	}
	return rates[outage.MostRestrictive(rates)]
}

// resetOf returns when Remaining changes: for a denied request after the time of its Retry-After,
// else when all permits of the reported policy are free.
func resetOf(v *visit, shown rratelimiter.Decision, retryAfter time.Duration) time.Duration {
	if !shown.Allowed {
		return max(retryAfter, time.Second)
	}
	for _, d := range v.Answer.Each {
		if d.Limit == shown.Limit && d.Remaining == shown.Remaining {
			return d.ResetAfter
		}
	}
	return shown.ResetAfter
}
