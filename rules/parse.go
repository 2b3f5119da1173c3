package rules

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
)

// snapshot is a decoded file of rules. It is immutable.
type snapshot struct {
	rules    []*rule
	settings map[settings]bool // of all rules; the value reports whether a rule needs Redis
	address  httplimit.Address
	all      bool // all rules that match decide, not only the first

	allowSlashes bool // paths may have escaped slashes and backslashes
	looksAtPaths bool // a rule without shadow depends on the path

	http matcher
	grpc matcher
}

// fileFile is the top level of a file.
type fileFile struct {
	domain, match, address, slashes, defaults, rules *rulefile.Node
}

var fileFields = map[string]field[fileFile]{
	"domain":          func(_ *decoder, n *rulefile.Node, f *fileFile) { f.domain = n },
	"match":           func(_ *decoder, n *rulefile.Node, f *fileFile) { f.match = n },
	"address":         func(_ *decoder, n *rulefile.Node, f *fileFile) { f.address = n },
	"escaped_slashes": func(_ *decoder, n *rulefile.Node, f *fileFile) { f.slashes = n },
	"defaults":        func(_ *decoder, n *rulefile.Node, f *fileFile) { f.defaults = n },
	"rules":           func(_ *decoder, n *rulefile.Node, f *fileFile) { f.rules = n },
}

// parse decodes a file.
func parse(name string, data []byte) (*snapshot, error) {
	if len(data) > rulefile.MostBytes {
		problem := rulefile.TooLarge(int64(len(data)))
		problem.File = name
		return nil, (*Error)(problem)
	}
	d, err := newDecoder(name, data)
	if err != nil {
		return nil, err
	}
	s := d.snapshot()
	if err := joined(d.Problems); err != nil {
		return nil, err
	}
	return s, nil
}

// snapshot decodes the rules of the document.
func (d *decoder) snapshot() *snapshot {
	file := fileFile{}
	rulefile.Fields(d, d.Root, fileFields, &file)
	s := &snapshot{}
	domain := d.head(&file, s)
	if len(d.Problems) > 0 {
		return s // problems of the rules could be consequences
	}
	if file.rules == nil {
		if d.Root.Tag == rulefile.Mapping {
			d.Fail(d.Root, "no rules: give a list, which may be empty")
		}
		return s
	}
	if file.rules.Tag != rulefile.List {
		d.Wrong(file.rules, "a list of rules")
		return s
	}
	lines := make(map[string]int, len(file.rules.Content))
	s.rules = make([]*rule, 0, len(file.rules.Content))
	for i, n := range file.rules.Content {
		if d.Full() {
			return s
		}
		r := d.rule(n, domain)
		if r == nil {
			continue
		}
		if line := lines[r.name]; line > 0 {
			d.Fail(n, "the name %q is there twice, first in line %d", r.name, line)
			continue
		}
		lines[r.name] = r.line
		s.rules = append(s.rules, r)
		if i%rulesAtOnce == rulesAtOnce-1 {
			runtime.Gosched()
		}
	}
	d.rates(s)
	s.build()
	return s
}

// build indexes the rules for requests.
func (s *snapshot) build() {
	s.settings = settingsOf(s.rules)
	s.settings[refusing(settings{})] = false
	for i, r := range s.rules {
		s.looksAtPaths = s.looksAtPaths || !r.settings.shadow && r.looksAtPaths()
		for _, c := range r.conditions {
			if c.rpc {
				s.grpc.add(i, c)
			} else {
				s.http.add(i, c)
			}
		}
		if i%rulesAtOnce == rulesAtOnce-1 {
			runtime.Gosched()
		}
	}
}

// rulesAtOnce is the number of rules after which a reload yields the processor, so that it does not
// delay requests.
const rulesAtOnce = 16

// rates reports limiters for which two rules state different rates.
func (d *decoder) rates(s *snapshot) {
	stated := make(map[string]rratelimiter.Rate)
	for _, r := range s.rules {
		for _, limiter := range r.stated() {
			if before, ok := stated[limiter.name]; ok && before != *limiter.rate {
				d.Problems = append(d.Problems, &rulefile.Problem{File: d.File, Line: r.line, Field: "rules", Reason: fmt.Sprintf(
					"the rule %q states another rate for the limiter %q than a rule before it: state it once", r.name, limiter.name)})
			}
			stated[limiter.name] = *limiter.rate
		}
	}
}

// head decodes all fields besides the rules.
func (d *decoder) head(file *fileFile, s *snapshot) (domain string) {
	if file.domain != nil {
		domain, _ = d.Text(file.domain, "a text, what the names of all limiters begin with")
		if !rulefile.IsPrintable(domain) || strings.Contains(domain, " ") || len(domain) > longestName {
			d.Fail(file.domain, "the domain %q, want printable ASCII without spaces, at most %d characters",
				rulefile.Clip(domain), longestName)
		} else if err := checkName(domain); err != nil {
			d.Fail(file.domain, "%v", err)
		}
	}
	if file.match != nil {
		text, _ := d.OneOf(file.match, "first", "all")
		s.all = text == "all"
	}
	if file.address != nil {
		rulefile.Fields(d, file.address, addressFields, &d.address)
		s.address = d.address
	}
	if file.slashes != nil {
		text, _ := d.OneOf(file.slashes, "refuse", "allow")
		d.allowSlashes = text == "allow"
		s.allowSlashes = d.allowSlashes
	}
	if file.defaults != nil {
		d.readDefaults(file.defaults)
	}
	return domain
}

// readDefaults decodes the defaults, and reports their problems once.
func (d *decoder) readDefaults(n *rulefile.Node) {
	file := ruleFile{}
	before := len(d.Problems)
	rulefile.Fields(d, n, defaultFields, &file)
	d.settings(&file, &rule{})
	if file.key != nil {
		d.key(file.key)
	}
	d.policy(file.policy)
	if len(d.Problems) == before {
		d.defaults = file
	}
}
