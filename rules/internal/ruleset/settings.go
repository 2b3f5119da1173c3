package ruleset

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
	"github.com/rratelimiter/rratelimiter/internal/guard/identity"
	"github.com/rratelimiter/rratelimiter/internal/notation"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"github.com/rratelimiter/rratelimiter/limit"
)

// settings are the settings of a rule.
type settings struct {
	OnFailure failureMode
	Wait      rulefile.Duration // 0 if the rule has none
	Shadow    bool
	Status    denialStatus
	Refund    statuses
	Headers   headerStyle

	refuses bool // a ban, or a request that cannot be read: it is refused without Redis
}

// apply changes the settings of an interceptor or a Middleware to those that a rule has.
func (s settings) apply(to *gate.Settings) {
	if s.OnFailure.stated {
		to.Mode = s.OnFailure.mode
	}
	to.Wait = cmp.Or(time.Duration(s.Wait), to.Wait)
	to.Shadow = to.Shadow || s.Shadow
	to.Denied = int(s.Status)
	if s.Refund != "" {
		to.Refunds = s.Refund.has
	}
	if s.Headers != 0 {
		to.Headers = int(s.Headers - 1)
	}
}

// fileSettings are the settings that all rules of a file have.
type fileSettings struct {
	Deadline, Spread rulefile.Duration // 0 if the file has none
	MaxWaiting       maxWaiting
	OnInvalid        onInvalid
}

// apply is that of settings, for all rules.
func (s fileSettings) apply(to *gate.Settings) {
	to.Deadline = cmp.Or(time.Duration(s.Deadline), to.Deadline)
	to.Spread.Most = cmp.Or(time.Duration(s.Spread), to.Spread.Most)
	to.MaxWaiting = cmp.Or(int(s.MaxWaiting), to.MaxWaiting)
	to.InvalidFails = to.InvalidFails || bool(s.OnInvalid)
}

// refusing returns the settings of a rule for requests that it refuses without Redis. A ban has no
// limit to report.
func refusing(s settings) settings {
	return settings{Shadow: s.Shadow, Status: cmp.Or(s.Status, http.StatusForbidden),
		Headers: headerStyle(httplimit.NoHeaders) + 1, refuses: true}
}

// denialStatus is the status of a denial; 0 for 429, or 403 for a ban.
type denialStatus int

func (s *denialStatus) UnmarshalNode(d *rulefile.Decoder, n *rulefile.Node) {
	const want = "401, 403, 404, 429 or 503"
	number := d.Number(n, 401, 503, want)
	if *s = denialStatus(number); number != 0 && !strings.Contains(want, strconv.FormatInt(number, 10)) {
		d.Fail(n, "%d, want %s", number, want)
	}
}

// statuses is the statuses of responses whose requests are refunded, like 200 or 2xx. No response ends with
// one below 200: a 101 is the beginning of another protocol.
type statuses string

var statusText = regexp.MustCompile(`^[2-5](\d\d|xx)$`)

func (s *statuses) UnmarshalNode(d *rulefile.Decoder, n *rulefile.Node) {
	all := []*rulefile.Node{n}
	if n.Tag == rulefile.List && len(n.Content) > 0 {
		all = n.Content
	}
	*s = ""
	for _, n := range all {
		if *s += statuses(n.Value + " "); !n.IsScalar() || !statusText.MatchString(n.Value) {
			d.Wrong(n, "a status like 200, a class like 2xx, or a list of them")
		}
	}
}

func (s statuses) has(status int) bool {
	text := strconv.Itoa(status)
	return strings.Contains(string(s), text) || strings.Contains(string(s), text[:1]+"xx")
}

// headerStyle is a style of httplimit plus 1; 0 if the file states none.
type headerStyle int

// headerStyles are the styles with their names in files.
var headerStyles = []struct {
	name  string
	style httplimit.HeaderStyle
}{
	{"draft11", httplimit.Draft11}, {"three_headers", httplimit.ThreeHeaders},
	{"x_rate_limit", httplimit.XRateLimit}, {"none", httplimit.NoHeaders},
}

func (h *headerStyle) UnmarshalNode(d *rulefile.Decoder, n *rulefile.Node) {
	names := make([]string, len(headerStyles))
	for i, s := range headerStyles {
		names[i] = s.name
	}
	*h = 0
	if i := slices.Index(names, d.OneOf(n, names...)); i >= 0 {
		*h = headerStyle(headerStyles[i].style) + 1
	}
}

// maxWaiting bounds the waiting requests of all rules; 0 for no bound.
type maxWaiting int

func (w *maxWaiting) UnmarshalNode(d *rulefile.Decoder, n *rulefile.Node) {
	*w = maxWaiting(d.Number(n, 1, 1_000_000, "a whole number of requests, 1 to 1,000,000"))
}

// onInvalid is true if the failure mode decides requests that lack what a rule needs.
type onInvalid bool

func (o *onInvalid) UnmarshalNode(d *rulefile.Decoder, n *rulefile.Node) {
	*o = d.OneOf(n, "refuse", "on_failure") == "on_failure"
}

// failureMode is open, closed, or {local: share}.
type failureMode struct {
	mode   limit.FailureMode
	stated bool
}

func (m *failureMode) UnmarshalNode(d *rulefile.Decoder, n *rulefile.Node) {
	const want = "open, closed, or a mapping like {local: 0.1}"
	*m = failureMode{limit.Closed, true}
	if n.Tag == rulefile.Mapping {
		var file struct{ Local *rulefile.Node }
		if d.Fields(n, &file); file.Local == nil {
			d.Fail(n, "want %s", want)
			return
		}
		m.mode = limit.FailureMode(d.Fraction(file.Local, "a share of the limit, above 0, at most 1",
			func(x float64) bool { return x > 0 && x <= 1 }))
		return
	}
	text, ok := d.Text(n, "a text, "+want)
	switch {
	case text == "open":
		m.mode = limit.Open
	case ok && text != "closed":
		d.Fail(n, "%q, want %s", rulefile.Clip(text), want)
	}
}

// cost is the cost of a request: a number of permits, a header, or the size of its body. The zero cost
// is one permit.
type cost struct {
	permits int64
	header  headerName // with the cost
	bytes   int64      // of the body per permit; 0 if the size has no effect
}

func (c *cost) UnmarshalNode(d *rulefile.Decoder, n *rulefile.Node) {
	const want = "a whole number of permits from 1 on, header:NAME, content_length, or content_length/BYTES"
	*c = cost{}
	if n.Tag == rulefile.Int {
		c.permits = d.Number(n, 1, notation.MaxPermits, want)
		return
	}
	text, ok := d.Text(n, want)
	if !ok {
		return
	}
	if name, ok := strings.CutPrefix(text, "header:"); ok {
		d.Parse(n, name, &c.header)
		return
	}
	if text == "content_length" {
		c.bytes = 1
		return
	}
	if digits, ok := strings.CutPrefix(text, "content_length/"); ok {
		if bytes, err := strconv.ParseUint(digits, 10, 53); err == nil && bytes > 0 {
			c.bytes = int64(bytes)
			return
		}
	}
	d.Fail(n, "%q is no cost, want %s", rulefile.Clip(text), want)
}

// permitsOf returns the cost of a request, at least 1, or an error if the request is invalid.
func (c *cost) permitsOf(r *Request) (int64, error) {
	switch {
	case c.header != "":
		v := r.valuesOf(string(c.header))
		if len(v.sent) != 1 || !v.clear {
			return 1, identity.Lackingf("header "+string(c.header), "rules: %d values of the header %s, want one, the cost",
				len(v.sent), c.header)
		}
		permits, err := strconv.ParseUint(v.one, 10, 53)
		if err != nil {
			return 1, identity.Invalidf("rules: the header %s is %q, want the cost, a whole number", c.header,
				rulefile.Clip(v.one))
		}
		return max(1, int64(permits)), nil
	case c.bytes > 0:
		if r.Length < 0 {
			return 1, fmt.Errorf("rules: cost: %w", httplimit.ErrLengthRequired)
		}
		return max(1, (r.Length-1)/c.bytes+1), nil
	}
	return max(1, c.permits), nil
}

// skip selects the requests that a rule lets pass.
type skip struct {
	ranges  []netip.Prefix
	paths   []pattern
	methods []method
}

func (d *decoder) skip(n *rulefile.Node) *skip {
	if n == nil {
		return nil
	}
	const want = "a text, a path like /health or /static/"
	var file struct {
		Ranges         clientRanges
		Paths, Methods *rulefile.Node
	}
	d.Fields(n, &file)
	s := &skip{ranges: file.Ranges, methods: rulefile.ListOf[method](&d.Decoder, file.Methods)}
	d.Texts(file.Paths, want, func(n *rulefile.Node, text string) {
		p, ok := d.parsePattern(n, "path", text)
		if ok && (p.method != "" || p.host != "") {
			d.Fail(n, "%q, want %s", rulefile.Clip(text), want)
		}
		s.paths = append(s.paths, p)
	})
	return s
}

// skips reports whether a rule lets a request pass. A path is skipped if all its interpretations are, and
// a method as it was sent: a server may serve another spelling, or HEAD, in another way. An unknown
// address is in no range.
func (s *skip) skips(r *Request, readings [][]string) bool {
	if !r.otherMethod && slices.Contains(s.methods, method(r.Method)) || len(s.paths) > 0 && s.hasPaths(readings) {
		return true
	}
	if len(s.ranges) == 0 {
		return false
	}
	client, err := r.Client()
	return err == nil && identity.Contains(s.ranges, client)
}

func (s *skip) hasPaths(readings [][]string) bool {
	return !slices.ContainsFunc(readings, func(segments []string) bool {
		return !slices.ContainsFunc(s.paths, func(p pattern) bool { return p.hasPath(segments) })
	})
}
