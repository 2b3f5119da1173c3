package rules

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"

	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/target"
)

// settings are the settings of a rule for httplimit. Rules with equal settings share one
// Middleware, which tracks the state of Redis for all of them.
type settings struct {
	onFailure httplimit.FailureMode
	modeGiven bool
	deadline  time.Duration // 0 if the rule has none
	wait      time.Duration
	// maxWaiting bounds the waiting requests of all rules for a request of this one; 0 if the rule
	// has none.
	maxWaiting int
	shadow     bool
	// invalidFails means that the failure mode decides requests that lack what the rule needs.
	invalidFails bool

	costs   bool // the rule sets the cost, or the cost has no effect
	refuses bool // requests are refused without Redis, whose state has no effect
}

// options returns the settings as options of httplimit. Other settings are those of the caller's
// options.
func (s settings) options() []httplimit.Option {
	var opts []httplimit.Option
	if s.modeGiven {
		opts = append(opts, httplimit.OnFailure(s.onFailure))
	}
	if s.deadline > 0 {
		opts = append(opts, httplimit.Deadline(s.deadline))
	}
	if s.wait > 0 {
		opts = append(opts, httplimit.Wait(s.wait))
	}
	if s.maxWaiting > 0 {
		opts = append(opts, httplimit.MaxWaiting(s.maxWaiting))
	}
	if s.shadow {
		opts = append(opts, httplimit.Shadow())
	}
	if s.invalidFails {
		opts = append(opts, httplimit.InvalidAsFailure())
	}
	if s.costs {
		opts = append(opts, httplimit.Cost(costOf))
	}
	return opts
}

// refusing returns the settings of a rule for requests that it refuses without Redis.
func refusing(s settings) settings { return settings{shadow: s.shadow, costs: true, refuses: true} }

// settingsOf returns the settings of all rules. The value reports whether a rule with these
// settings needs Redis.
func settingsOf(rules []*rule) map[settings]bool {
	all := make(map[settings]bool)
	for _, r := range rules {
		all[r.settings] = all[r.settings] || r.asks()
		all[refusing(r.settings)] = false
	}
	return all
}

// onInvalid decodes the treatment of requests that lack what a rule needs.
func (d *decoder) onInvalid(n *rulefile.Node, s *settings) {
	text, _ := d.OneOf(n, "refuse", "on_failure")
	s.invalidFails = text == "on_failure"
}

// onFailure decodes a failure mode: open, closed, or {local: share}.
func (d *decoder) onFailure(n *rulefile.Node, s *settings) {
	const want = "open, closed, or a mapping like {local: 0.1}"
	s.modeGiven = true
	if n.Tag == rulefile.Mapping {
		share := 0.0
		rulefile.Fields(d, n, localFields, &share)
		if len(n.Content) == 0 {
			d.Fail(n, "an empty mapping, want %s", want)
		}
		if share > 0 {
			s.onFailure = httplimit.Local(share)
		}
		return
	}
	text, ok := d.Text(n, "a text, "+want)
	switch {
	case !ok:
	case text == "open":
		s.onFailure = httplimit.Open
	case text == "closed":
		s.onFailure = httplimit.Closed
	default:
		d.Fail(n, "%q, want %s", rulefile.Clip(text), want)
	}
}

var localFields = map[string]field[float64]{
	"local": func(d *decoder, n *rulefile.Node, share *float64) {
		*share = d.Fraction(n, "a share of the limit, above 0, at most 1", func(x float64) bool { return x > 0 && x <= 1 })
	},
}

// cost is the cost of a request: a number of permits, a header, or the size of its body.
type cost struct {
	permits int64
	header  string // with the cost
	bytes   int64  // of the body per permit; 0 if the size has no effect
}

// cost decodes the cost of a request.
func (d *decoder) cost(n *rulefile.Node) *cost {
	const want = "a whole number of permits from 1 on, header:NAME, content_length, or content_length/BYTES"
	if n.Tag == rulefile.Int {
		permits := d.Number(n, 1, rulefile.MostPermits, want)
		return &cost{permits: permits}
	}
	text, ok := d.Text(n, want)
	if !ok {
		return nil
	}
	if name, ok := strings.CutPrefix(text, "header:"); ok {
		return &cost{header: d.headerName(n, name)}
	}
	if text == "content_length" {
		return &cost{bytes: 1}
	}
	if digits, ok := strings.CutPrefix(text, "content_length/"); ok {
		if bytes, err := strconv.ParseUint(digits, 10, 53); err == nil && bytes > 0 {
			return &cost{bytes: int64(bytes)}
		}
	}
	d.Fail(n, "%q is no cost, want %s", rulefile.Clip(text), want)
	return nil
}

// of returns the cost of a request, at least 1, or an error if the request is invalid.
func (c *cost) of(r requestInfo) (int64, error) {
	switch {
	case c == nil:
		return 1, nil
	case c.header != "":
		values := r.values(c.header)
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
		length := r.length()
		if length < 0 {
			return 1, fmt.Errorf("rules: cost: %w", httplimit.ErrLengthRequired)
		}
		return max(1, (length-1)/c.bytes+1), nil
	}
	return c.permits, nil
}

// skip selects the requests that a rule lets pass.
type skip struct {
	ranges  []netip.Prefix
	paths   []pattern
	methods []string
}

var skipFields = map[string]field[skip]{
	"ranges":  func(d *decoder, n *rulefile.Node, s *skip) { s.ranges = d.clientRanges(n) },
	"methods": func(d *decoder, n *rulefile.Node, s *skip) { s.methods = d.methods(n) },
	"paths": func(d *decoder, n *rulefile.Node, s *skip) {
		const want = "a text, a path like /health or /static/"
		d.Texts(n, want, func(n *rulefile.Node, text string) {
			p, err := parsePattern(text)
			switch {
			case err != nil:
				d.Fail(n, "the path %q: %v", rulefile.Clip(text), err)
			case slices.ContainsFunc(p.segments, hasSlash) && !d.allowSlashes:
				d.Fail(n, "the path %q %s", rulefile.Clip(text), refusedSlash)
			case p.method != "" || p.host != "":
				d.Fail(n, "%q, want %s", rulefile.Clip(text), want)
			default:
				s.paths = append(s.paths, p)
			}
		})
	},
}

// skips reports whether a rule lets a request pass. A path is skipped if all its readings are. An
// unknown address is in no range.
func (s *skip) skips(r requestInfo, path target.Path) bool {
	if s == nil {
		return false
	}
	if hasMethod(s.methods, r.method()) || len(s.paths) > 0 && path.All(s.hasPath) {
		return true
	}
	if len(s.ranges) == 0 {
		return false
	}
	client, err := r.client()
	return err == nil && contains(s.ranges, client)
}

// hasPath reports whether a reading of a path is skipped.
func (s *skip) hasPath(path string) bool {
	segments := segmentsOf(path)
	return slices.ContainsFunc(s.paths, func(p pattern) bool { return p.hasPath(segments) })
}

// addressFields are the fields of address.
var addressFields = map[string]field[httplimit.Address]{
	"trusted": func(d *decoder, n *rulefile.Node, a *httplimit.Address) { a.Trusted = d.ranges(n) },
	"header": func(d *decoder, n *rulefile.Node, a *httplimit.Address) {
		if text, ok := d.Text(n, "a text, the header that proxies write"); ok {
			a.Header = d.headerName(n, text)
		}
	},
	"ipv6_bits": func(d *decoder, n *rulefile.Node, a *httplimit.Address) {
		bits := d.Number(n, 1, 128, "bits of an address, 1 to 128")
		a.IPv6Bits = int(bits)
	},
}
