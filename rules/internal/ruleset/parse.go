// Package ruleset decodes the files of package rules, and decides requests by them. HTTP and gRPC have
// it in common: it knows requests and limiters, and no interceptors.
package ruleset

import (
	"fmt"
	"iter"
	"net/netip"
	"strings"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"github.com/rratelimiter/rratelimiter/rules/internal/yamlfile"
)

// Parse decodes a file. It returns its problems in their order in the file.
func Parse(name string, data []byte) (*File, []*rulefile.Problem) {
	s := new(File)
	d := &decoder{Decoder: rulefile.Decoder{File: name}}
	if d.Load(data, yamlfile.Parse) {
		d.document(s)
	}
	if len(d.Problems) > 0 {
		rulefile.Sort(d.Problems)
		return nil, d.Problems
	}
	s.build()
	return s, nil
}

func (d *decoder) document(s *File) {
	var file struct {
		Domain, Match, Address, ForwardAuth, EscapedSlashes, Defaults, Rules *rulefile.Node
		fileSettings
	}
	isMapping := d.Fields(d.Root, &file)
	s.settings = file.fileSettings
	d.Places = []rulefile.Place{{Name: "the file", Fields: s.settings}}
	s.all = d.OneOf(file.Match, "first", "all") == "all"
	s.allowSlashes = d.OneOf(file.EscapedSlashes, "refuse", "allow") == "allow"
	s.address = d.head(file.Domain, file.Address)
	d.allowSlashes, d.address = s.allowSlashes, s.address
	s.forwarded = forwardedHeaders{"X-Forwarded-Method", "X-Forwarded-Host", "X-Forwarded-Uri"}
	d.Fields(file.ForwardAuth, &s.forwarded)
	defaults := d.readDefaults(file.Defaults)
	switch {
	case len(d.Problems) > 0: // problems of the rules could be consequences
	case file.Rules == nil && isMapping:
		d.Fail(d.Root, "no rules: give a list, which may be empty")
	case file.Rules.Tag != rulefile.List:
		d.Wrong(file.Rules, "a list of rules")
	default:
		s.rules = d.rulesOf(file.Rules, defaults, s.all)
		d.checkRates(s)
	}
}

func (d *decoder) head(domain, address *rulefile.Node) httplimit.Address {
	d.domain, _ = d.Text(domain, "a text, what the names of all limiters begin with")
	if !rulefile.IsPrintable(d.domain) || strings.Contains(d.domain, " ") || len(d.domain) > longestName {
		d.Fail(domain, "the domain %q, want printable ASCII without spaces, at most %d characters",
			rulefile.Clip(d.domain), longestName)
	} else if err := checkName(d.domain); err != nil {
		d.Fail(domain, "%v", err)
	}
	var file struct {
		Trusted *rulefile.Node
		Header  headerName
		Bits4   *rulefile.Node `file:"ipv4_bits"`
		Bits6   *rulefile.Node `file:"ipv6_bits"`
	}
	d.Fields(address, &file)
	bits4 := d.Number(file.Bits4, 1, 32, "bits of an address, 1 to 32")
	bits6 := d.Number(file.Bits6, 1, 128, "bits of an address, 1 to 128")
	var trusted []netip.Prefix
	for _, p := range rulefile.ListOf[proxy](&d.Decoder, file.Trusted) {
		trusted = append(trusted, p.Prefix)
	}
	return httplimit.Address{Trusted: trusted, Header: string(file.Header), IPv4Bits: int(bits4), IPv6Bits: int(bits6)}
}

// proxy is a range of trusted proxies, or "unix" for the unix socket.
type proxy struct{ rulefile.Range }

// UnmarshalText decodes a proxy.
func (p *proxy) UnmarshalText(text []byte) error {
	if string(text) == "unix" {
		p.Prefix = httplimit.UnixSocket()
		return nil
	}
	return p.Range.UnmarshalText(text)
}

// readDefaults decodes the defaults, and reports their problems once.
func (d *decoder) readDefaults(n *rulefile.Node) *defaultsFile {
	defaults := new(defaultsFile)
	d.Fields(n, defaults)
	d.skip(defaults.Skip)
	d.RatedPolicy(defaults.Policy, nil, defaultPolicy)
	return defaults
}

// rulesOf decodes the rules, whose names must be unique. Unless all of them decide, a request must be
// able to reach each.
func (d *decoder) rulesOf(list *rulefile.Node, defaults *defaultsFile, allDecide bool) (all []*rule) {
	lines := make(map[string]int, len(list.Content))
	known := make(reach)
	for _, n := range list.Content {
		if d.Full() {
			break
		}
		r := d.rule(n, defaults)
		if r == nil {
			continue
		}
		if line := lines[r.name]; line > 0 {
			d.Fail(n, "the name %q is there twice, first in line %d", r.name, line)
			continue
		}
		lines[r.name] = r.line
		if by := known.coveredBy(r); by != "" && !allDecide {
			const reason = "no request reaches the rule %q, since the rule %q before it matches all its requests: " +
				"write it first, or match: all"
			d.Fail(n, reason, r.name, by)
		}
		known.add(r)
		all = append(all, r)
	}
	return all
}

// checkRates reports limiters for which two rules state different rates, and gives each rule the rate
// that another one states.
func (d *decoder) checkRates(s *File) {
	stated := make(map[string]*rratelimiter.Rate)
	check := func(r *rule, limiter *redisson) {
		before := stated[limiter.name]
		if stated[limiter.name] = limiter.rate; before == nil {
			s.rates = append(s.rates, StatedRate{limiter.name, *limiter.rate, r.name})
		} else if *before != *limiter.rate {
			reason := fmt.Sprintf("the rule %q states another rate for the limiter %q than a rule before it: state it once",
				r.name, limiter.name)
			problem := &rulefile.Problem{File: d.File, Line: r.line, Field: "rules", Reason: reason}
			d.Problems = append(d.Problems, problem)
		}
	}
	for r, limiter := range s.redissons() {
		if limiter.rate != nil {
			check(r, limiter)
		}
	}
	for _, limiter := range s.redissons() {
		limiter.rate = stated[limiter.name]
	}
}

func (s *File) redissons() iter.Seq2[*rule, *redisson] {
	return func(yield func(*rule, *redisson) bool) {
		for _, r := range s.rules {
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

type decoder struct {
	rulefile.Decoder

	// Of the head of the file.
	domain       string
	allowSlashes bool
	address      httplimit.Address
}
