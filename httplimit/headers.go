package httplimit

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// fields collects header fields, so that all of them together take two allocations.
type fields struct {
	text   []byte // the values that are built here, one after the other
	begin  int    // of the next value in text
	names  [5]string
	values [5]string // constant values; "" for those in text
	ends   [5]int
	n      int
}

// pool reuses fields, whose text grows to what a response needs.
var pool = sync.Pool{New: func() any { return new(fields) }}

// clear resets fields for another response.
func (f *fields) clear() {
	*f = fields{text: f.text[:0]}
}

// fixed adds a field with a constant value.
func (f *fields) fixed(name, value string) {
	f.values[f.n] = value
	f.end(name)
}

// end adds a field with the text that was appended since the last field.
func (f *fields) end(name string) {
	f.names[f.n], f.ends[f.n] = name, len(f.text)
	f.n++
	f.begin = len(f.text)
}

// comma separates the items of a field.
func (f *fields) comma() {
	if len(f.text) > f.begin {
		f.text = append(f.text, ", "...)
	}
}

// number adds a field with a number.
func (f *fields) number(name string, n int64) {
	f.text = strconv.AppendInt(f.text, n, 10)
	f.end(name)
}

// set sets the fields. Items of the draft's fields follow those of an outer Middleware.
func (f *fields) set(h http.Header) {
	text, begin := string(f.text), 0
	all := make([]string, f.n)
	for i := range all {
		if all[i] = f.values[i]; all[i] == "" {
			all[i] = text[begin:f.ends[i]]
		}
		begin = f.ends[i]
		name := f.names[i]
		if (name == limitField || name == policyField) && len(h[name]) > 0 {
			h[name] = append(h[name], all[i])
		} else {
			h[name] = all[i : i+1 : i+1]
		}
	}
}

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

// setHeaders sets the headers of a decision, and those of a problem document.
func (m *middleware) setHeaders(h http.Header, o *Outcome, document bool) {
	f := pool.Get().(*fields)
	defer pool.Put(f)
	f.clear()
	after := m.spread.Add(retryAfter(o))
	retry := guard.RoundUp(after, time.Second)
	switch numbers := o.Decision.Limit > 0; {
	case o.Result != Acquired && o.Result != Rejected:
	case m.style == Draft11:
		if !o.Local && o.known.matches(o) {
			f.fixed(policyField, o.known.header)
		} else if numbers {
			f.policies(o)
		}
		if numbers {
			f.limits(m.guard, o, retry)
		}
	case m.style == ThreeHeaders && numbers:
		f.three(h, threeFields, o, guard.RoundUp(reset(o, after), time.Second))
	case m.style == XRateLimit && numbers:
		f.three(h, xLimitFields, o, unixSeconds(time.Now().Add(reset(o, after))))
	}
	if retry > 0 {
		f.number(retryField, retry)
	}
	if document {
		f.fixed(typeField, "application/problem+json")
	}
	f.set(h)
}

// matches reports whether the decisions have the limits of the described policies.
func (k *description) matches(o *Outcome) bool {
	if len(k.Policies) == 0 {
		return false
	}
	if o.Each == nil {
		return len(k.Policies) > 1 || k.Quotas[0] == o.Decision.Limit || o.Decision.Limit == 0
	}
	if len(o.Each) != len(k.Quotas) {
		return false
	}
	for i, d := range o.Each {
		if d.Limit != k.Quotas[i] {
			return false
		}
	}
	return true
}

// policies adds RateLimit-Policy.
func (f *fields) policies(o *Outcome) {
	if o.Each == nil {
		f.text = o.known.appendPolicy(f.text, o.known.Single(o.Decision), o.Decision.Limit)
	}
	for i, d := range o.Each {
		f.comma()
		f.text = o.known.appendPolicy(f.text, i, d.Limit)
	}
	f.end(policyField)
}

// limits adds RateLimit. For each policy, r is the remaining permits, and t the seconds during
// which they do not grow. A t that is unknown or below a second is left out. No t is later than
// Retry-After.
func (f *fields) limits(g *guard.Guard, o *Outcome, retry int64) {
	if o.Each == nil {
		f.limit(o.known.item(o.known.Single(o.Decision)), o.Decision.Remaining, window(g, o, 0, o.Decision), retry)
	}
	for i, d := range o.Each {
		f.comma()
		f.limit(o.known.item(i), d.Remaining, window(g, o, i, d), retry)
	}
	f.end(limitField)
}

func (f *fields) limit(item string, remaining int64, window time.Duration, retry int64) {
	f.text = append(f.text, item...)
	f.text = append(f.text, ";r="...)
	f.text = strconv.AppendInt(f.text, clampInteger(remaining), 10)
	t := int64(window / time.Second)
	if retry > 0 {
		t = min(t, retry)
	}
	if t > 0 {
		f.text = append(f.text, ";t="...)
		f.text = strconv.AppendInt(f.text, clampInteger(t), 10)
	}
}

// window returns the time during which a policy has no more permits than the decision reports, or 0
// if that is unknown.
func window(g *guard.Guard, o *Outcome, policy int, d rratelimiter.Decision) time.Duration {
	switch policies := o.known.Policies; {
	case o.waited: // the decision is older than the wait
		return 0
	case len(policies) != max(1, len(o.Each)): // not one decision for each policy
		return guard.Until(nil, d, o.Cost)
	case o.Local:
		return g.UntilLocal(policies[policy], d)
	case d.Allowed && !o.Decision.Allowed: // another policy denied, and the request took nothing
		return guard.Until(policies[policy], d, 0)
	default:
		return guard.Until(policies[policy], d, o.Cost)
	}
}

// three adds the three fields of the older styles, which describe one policy: the one that denied,
// or the one with the fewest permits left. An outer Middleware's policy counts too.
func (f *fields) three(h http.Header, names [3]string, o *Outcome, reset int64) {
	if outside := h[names[1]]; o.Result == Acquired && len(outside) == 1 {
		if left, err := strconv.ParseInt(outside[0], 10, 64); err == nil && left <= o.Decision.Remaining {
			return
		}
	}
	f.number(names[0], o.Decision.Limit)
	f.number(names[1], o.Decision.Remaining)
	f.number(names[2], reset)
}

// reset returns when Remaining changes: for a denied request after the time of its Retry-After, else
// when all permits of the reported policy are free.
func reset(o *Outcome, retryAfter time.Duration) time.Duration {
	if o.Result == Rejected {
		return max(retryAfter, time.Second)
	}
	for _, d := range o.Each {
		if d.Limit == o.Decision.Limit && d.Remaining == o.Decision.Remaining {
			return d.ResetAfter
		}
	}
	return o.Decision.ResetAfter
}

// retryAfter returns the time after which a retry could succeed, 0 for never.
func retryAfter(o *Outcome) time.Duration {
	switch {
	case o.Result == FailedClosed && o.invalid == nil:
		return time.Second
	case o.Result == Rejected:
		return o.Decision.RetryAfter
	}
	return 0
}

// unixSeconds returns t as Unix time in whole seconds, rounded up.
func unixSeconds(t time.Time) int64 {
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return s
}
