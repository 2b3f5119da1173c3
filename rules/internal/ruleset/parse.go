// Package ruleset decodes the files of package rules, and decides requests by them. HTTP and gRPC have
// it in common: it knows requests and limiters, and no interceptors.
package ruleset

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// File is a decoded file of rules. It is immutable.
type File struct {
	rules     []*rule
	rates     []StatedRate
	deadlines map[time.Duration]bool // of the rules that need Redis
	address   httplimit.Address
	forwarded forwardedHeaders
	all       bool // all rules that match decide, not only the first

	allowSlashes bool // paths may have escaped slashes and backslashes
	usesPaths    bool // a rule without shadow depends on the path

	http matcher
	grpc matcher
}

// Names returns the names of the rules in their order.
func (s *File) Names() []string {
	names := make([]string, len(s.rules))
	for i, r := range s.rules {
		names[i] = r.name
	}
	return names
}

// Rates returns the rates that the file states for Redisson limiters.
func (s *File) Rates() []StatedRate { return s.rates }

// Address returns the address settings of the file.
func (s *File) Address() httplimit.Address { return s.address }

// decoder decodes a file of rules.
type decoder struct {
	rulefile.Decoder
	*File

	domain   string
	defaults defaultsFile
}

// Parse decodes a file. It returns its problems in their order in the file.
func Parse(name string, data []byte) (*File, []*rulefile.Problem) {
	s := &File{deadlines: make(map[time.Duration]bool)}
	d := &decoder{Decoder: rulefile.Decoder{File: name}, File: s}
	if d.Load(data, parseYAML) {
		d.document()
	}
	if len(d.Problems) > 0 {
		rulefile.Sort(d.Problems)
		return nil, d.Problems
	}
	s.build()
	return s, nil
}

// document decodes the document.
func (d *decoder) document() {
	var file struct{ Domain, Match, Address, ForwardAuth, EscapedSlashes, Defaults, Rules *rulefile.Node }
	isMapping := d.Fields(d.Root, &file)
	d.all = d.OneOf(file.Match, "first", "all") == "all"
	d.allowSlashes = d.OneOf(file.EscapedSlashes, "refuse", "allow") == "allow"
	d.head(file.Domain, file.Address)
	d.forwarded = forwardedHeaders{"X-Forwarded-Method", "X-Forwarded-Host", "X-Forwarded-Uri"}
	d.Fields(file.ForwardAuth, &d.forwarded)
	d.readDefaults(file.Defaults)
	switch {
	case len(d.Problems) > 0: // problems of the rules could be consequences
	case file.Rules == nil && isMapping:
		d.Fail(d.Root, "no rules: give a list, which may be empty")
	case file.Rules.Tag != rulefile.List:
		d.Wrong(file.Rules, "a list of rules")
	default:
		d.rulesOf(file.Rules)
		d.checkRates()
	}
}

// head decodes the domain and the address.
func (d *decoder) head(domain, address *rulefile.Node) {
	d.domain, _ = d.Text(domain, "a text, what the names of all limiters begin with")
	if !rulefile.IsPrintable(d.domain) || strings.Contains(d.domain, " ") || len(d.domain) > longestName {
		d.Fail(domain, "the domain %q, want printable ASCII without spaces, at most %d characters",
			rulefile.Clip(d.domain), longestName)
	} else if err := checkName(d.domain); err != nil {
		d.Fail(domain, "%v", err)
	}
	var file struct {
		Trusted rulefile.Ranges
		Header  headerName
		Bits    *rulefile.Node `file:"ipv6_bits"`
	}
	d.Fields(address, &file)
	bits := d.Number(file.Bits, 1, 128, "bits of an address, 1 to 128")
	d.address = httplimit.Address{Trusted: file.Trusted, Header: string(file.Header), IPv6Bits: int(bits)}
}

// readDefaults decodes the defaults, and reports their problems once.
func (d *decoder) readDefaults(n *rulefile.Node) {
	d.Fields(n, &d.defaults)
	d.skip(d.defaults.Skip)
	d.PolicyName(d.defaults.Policy, defaultPolicy)
}

// rulesOf decodes the rules, whose names must be unique.
func (d *decoder) rulesOf(list *rulefile.Node) {
	lines := make(map[string]int, len(list.Content))
	for _, n := range list.Content {
		if d.Full() {
			break
		}
		r := d.rule(n)
		if r == nil {
			continue
		}
		if line := lines[r.name]; line > 0 {
			d.Fail(n, "the name %q is there twice, first in line %d", r.name, line)
			continue
		}
		lines[r.name] = r.line
		d.rules = append(d.rules, r)
	}
}

// checkRates reports limiters for which two rules state different rates, and gives each rule the rate
// that another one states.
func (d *decoder) checkRates() {
	stated := make(map[string]*rratelimiter.Rate)
	check := func(r *rule, limiter *redisson) {
		before := stated[limiter.name]
		if stated[limiter.name] = limiter.rate; before == nil {
			d.rates = append(d.rates, StatedRate{limiter.name, *limiter.rate, r.name})
		} else if *before != *limiter.rate {
			reason := fmt.Sprintf("the rule %q states another rate for the limiter %q than a rule before it: state it once",
				r.name, limiter.name)
			problem := &rulefile.Problem{File: d.Decoder.File, Line: r.line, Field: "rules", Reason: reason}
			d.Problems = append(d.Problems, problem)
		}
	}
	for r, limiter := range d.redissons() {
		if limiter.rate != nil {
			check(r, limiter)
		}
	}
	for _, limiter := range d.redissons() {
		limiter.rate = stated[limiter.name]
	}
}

// redissons returns the Redisson limiters of all rules.
func (d *decoder) redissons() iter.Seq2[*rule, *redisson] {
	return func(yield func(*rule, *redisson) bool) {
		for _, r := range d.rules {
			for _, l := range r.allLimits() {
				for i := range l.redisson {
					if !yield(r, &l.redisson[i]) {
						return
					}
				}
			}
		}
	}
}

// build indexes the rules for requests.
func (s *File) build() {
	for i, r := range s.rules {
		s.usesPaths = s.usesPaths || !r.settings.Shadow && r.usesPaths()
		if r.needsRedis() {
			s.deadlines[time.Duration(r.settings.Deadline)] = true
		}
		for _, c := range r.conditions {
			if c.rpc {
				s.grpc.add(i, c)
			} else {
				s.http.add(i, c)
			}
		}
	}
}
