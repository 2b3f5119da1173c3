package rules

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"github.com/rratelimiter/rratelimiter/internal/target"
)

// settings are the settings of a rule. Rules with equal settings share one Middleware, which tracks
// the state of Redis for all of them.
type settings struct {
	onFailure guard.Mode
	modeGiven bool
	deadline  time.Duration // 0 if the rule has none
	wait      time.Duration
	// maxWaiting bounds the waiting requests of all rules for a request of this one; 0 if the rule
	// has none.
	maxWaiting int
	spread     time.Duration // of the time to retry
	shadow     bool
	// invalidFails means that the failure mode decides requests that lack what the rule needs.
	invalidFails bool

	costs   bool // the rule sets the cost, or the cost has no effect
	refuses bool // requests are refused without Redis, whose state has no effect
}

// apply changes the settings of an interceptor or a Middleware to those that a rule has.
func (s settings) apply(to *guard.Settings) {
	if s.modeGiven {
		to.Mode = s.onFailure
	}
	to.Deadline = cmp.Or(s.deadline, to.Deadline)
	to.Wait = cmp.Or(s.wait, to.Wait)
	to.Spread.Most = cmp.Or(s.spread, to.Spread.Most)
	to.MaxWaiting = cmp.Or(s.maxWaiting, to.MaxWaiting)
	to.Shadow = to.Shadow || s.shadow
	to.InvalidFails = to.InvalidFails || s.invalidFails
}

// refusing returns the settings of a rule for requests that it refuses without Redis.
func refusing(s settings) settings { return settings{shadow: s.shadow, costs: true, refuses: true} }

// settings decodes the settings of a rule, its cost and what it skips.
func (d *decoder) settings(file *defaultsFile, r *rule) {
	r.settings = settings{
		onFailure: d.onFailure(file.OnFailure),
		modeGiven: file.OnFailure != nil,
		deadline:  d.Duration(file.Deadline),
		wait:      d.Duration(file.Wait),
		maxWaiting: int(d.Number(file.MaxWaiting, 1, mostWaiting,
			"a whole number of requests, 1 to 1,000,000")),
		spread:       d.Duration(file.Spread),
		shadow:       d.Boolean(file.Shadow),
		invalidFails: d.OneOf(file.OnInvalid, "refuse", "on_failure") == "on_failure",
		costs:        file.Cost != nil,
	}
	r.cost, r.skip = d.cost(file.Cost), d.skip(file.Skip)
}

// mostWaiting is the largest bound on requests that wait.
const mostWaiting = 1_000_000

// onFailure decodes a failure mode: open, closed, or {local: share}.
func (d *decoder) onFailure(n *rulefile.Node) guard.Mode {
	const want = "open, closed, or a mapping like {local: 0.1}"
	if n != nil && n.Tag == rulefile.Mapping {
		var file struct{ Local *rulefile.Node }
		if d.Fields(n, &file); file.Local == nil {
			d.Fail(n, "want %s", want)
			return guard.Closed
		}
		share := d.Fraction(file.Local, "a share of the limit, above 0, at most 1",
			func(x float64) bool { return x > 0 && x <= 1 })
		return guard.Mode(share)
	}
	text, ok := d.Text(n, "a text, "+want)
	switch {
	case text == "open":
		return guard.Open
	case ok && n != nil && text != "closed":
		d.Fail(n, "%q, want %s", rulefile.Clip(text), want)
	}
	return guard.Closed
}

// costOption is the cost of a request: a number of permits, a header, or the size of its body.
type costOption struct {
	permits int64
	header  string // with the cost
	bytes   int64  // of the body per permit; 0 if the size has no effect
}

// cost decodes the cost of a request.
func (d *decoder) cost(n *rulefile.Node) *costOption {
	const want = "a whole number of permits from 1 on, header:NAME, content_length, or content_length/BYTES"
	if n == nil {
		return nil
	}
	if n.Tag == rulefile.Int {
		permits := d.Number(n, 1, rulefile.MaxRate, want)
		return &costOption{permits: permits}
	}
	text, ok := d.Text(n, want)
	if !ok {
		return nil
	}
	if name, ok := strings.CutPrefix(text, "header:"); ok {
		return &costOption{header: d.headerName(n, name)}
	}
	if text == "content_length" {
		return &costOption{bytes: 1}
	}
	if digits, ok := strings.CutPrefix(text, "content_length/"); ok {
		if bytes, err := strconv.ParseUint(digits, 10, 53); err == nil && bytes > 0 {
			return &costOption{bytes: int64(bytes)}
		}
	}
	d.Fail(n, "%q is no cost, want %s", rulefile.Clip(text), want)
	return nil
}

// of returns the cost of a request, at least 1, or an error if the request is invalid.
func (c *costOption) of(r *requestInfo) (int64, error) {
	switch {
	case c == nil:
		return 1, nil
	case c.header != "":
		values := r.headers()[c.header]
		if len(values) != 1 {
			return 1, guard.Invalidf("rules: %d values of the header %s, want one, the cost", len(values), c.header)
		}
		permits, err := strconv.ParseUint(strings.TrimSpace(values[0]), 10, 53)
		if err != nil {
			return 1, guard.Invalidf("rules: the header %s is %q, want the cost, a whole number", c.header,
				rulefile.Clip(values[0]))
		}
		return max(1, int64(permits)), nil
	case c.bytes > 0:
		if r.length < 0 {
			return 1, fmt.Errorf("rules: cost: %w", httplimit.ErrLengthRequired)
		}
		return max(1, (r.length-1)/c.bytes+1), nil
	}
	return c.permits, nil
}

// skip selects the requests that a rule lets pass.
type skip struct {
	ranges  []netip.Prefix
	paths   []pattern
	methods []string
}

// skip decodes the requests that a rule lets pass.
func (d *decoder) skip(n *rulefile.Node) skip {
	const want = "a text, a path like /health or /static/"
	var file struct{ Ranges, Paths, Methods *rulefile.Node }
	d.Fields(n, &file)
	s := skip{ranges: d.clientRanges(file.Ranges), methods: d.methods(file.Methods)}
	d.Texts(file.Paths, want, func(n *rulefile.Node, text string) {
		p, ok := d.parsePattern(n, "path", text)
		if ok && (p.method != "" || p.host != "") {
			d.Fail(n, "%q, want %s", rulefile.Clip(text), want)
		}
		s.paths = append(s.paths, p)
	})
	return s
}

// skips reports whether a rule lets a request pass. A path is skipped if all its interpretations are. An
// unknown address is in no range.
func (s *skip) skips(r *requestInfo, path target.Path) bool {
	if hasMethod(s.methods, r.method) || len(s.paths) > 0 && path.All(s.hasPath) {
		return true
	}
	if len(s.ranges) == 0 {
		return false
	}
	client, err := r.client()
	return err == nil && guard.Contains(s.ranges, client)
}

// hasPath reports whether an interpretation of a path is skipped.
func (s *skip) hasPath(path string) bool {
	segments := segmentsOf(path)
	return slices.ContainsFunc(s.paths, func(p pattern) bool { return p.hasPath(segments) })
}
