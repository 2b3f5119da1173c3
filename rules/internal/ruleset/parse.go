// Package ruleset decodes the files of package rules, and decides requests by them. HTTP and gRPC have
// it in common: it knows requests and limiters, and no interceptors.
package ruleset

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"github.com/rratelimiter/rratelimiter/rules/internal/yamlfile"
)

// Parse decodes a file. It returns its problems in their order in the file.
func Parse(name string, data []byte) (*File, []*rulefile.Problem) {
	f := new(File)
	d := &decoder{Decoder: rulefile.Decoder{File: name}}
	if d.Load(data, yamlfile.Parse) {
		d.document(f)
	}
	if len(d.Problems) > 0 {
		rulefile.Sort(d.Problems)
		return nil, d.Problems
	}
	f.build()
	return f, nil
}

func (d *decoder) document(f *File) {
	var file struct {
		Domain, Match, Address, ForwardAuth, EscapedSlashes, Defaults, Rules *rulefile.Node
		fileSettings
	}
	isMapping := d.Fields(d.Root, &file)
	f.settings = file.fileSettings
	f.all = d.OneOf(file.Match, "first", "all") == "all"
	f.allowSlashes = d.OneOf(file.EscapedSlashes, "refuse", "allow") == "allow"
	f.Address = d.head(file.Domain, file.Address)
	d.allowSlashes, d.address = f.allowSlashes, f.Address
	f.forwarded = forwardedHeaders{"X-Forwarded-Method", "X-Forwarded-Host", "X-Forwarded-Uri"}
	d.Fields(file.ForwardAuth, &f.forwarded)
	defaults := new(defaultsFile)
	d.Fields(file.Defaults, defaults)
	d.skip(defaults.Skip) // reports their problems once
	d.RatedPolicy(defaults.Policy, nil, defaultPolicy)
	switch {
	case len(d.Problems) > 0: // problems of the rules could be consequences
	case file.Rules == nil && isMapping:
		d.Fail(d.Root, "no rules: give a list, which may be empty")
	case file.Rules.Tag != rulefile.List:
		d.Wrong(file.Rules, "a list of rules")
	default:
		f.rules = d.rulesOf(file.Rules, defaults)
		d.checkRates(f)
	}
}

func (d *decoder) head(domain, address *rulefile.Node) httplimit.Address {
	if domain != nil {
		d.checkDomain(domain)
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

func (d *decoder) checkDomain(n *rulefile.Node) {
	d.domain, _ = d.Text(n, "a text, what the names of all limiters begin with")
	if !rulefile.IsPrintable(d.domain) || strings.Contains(d.domain, " ") || len(d.domain) > longestName {
		d.Fail(n, "the domain %q, want printable ASCII without spaces, at most %d characters",
			rulefile.Clip(d.domain), longestName)
	} else if err := outage.CheckLimiter(offlineCluster.Limiter(d.domain + ":rule")); err != nil {
		d.Fail(n, "%v", err)
	}
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

// rulesOf decodes the rules, whose names must be unique.
func (d *decoder) rulesOf(list *rulefile.Node, defaults *defaultsFile) (all []*rule) {
	lines := make(map[string]int, len(list.Content))
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
		all = append(all, r)
	}
	return all
}

// checkRates reports limiters for which two rules state different rates, and gives each rule the rate
// that another one states.
func (d *decoder) checkRates(f *File) {
	var all []*redisson
	stated := make(map[string]*rratelimiter.Rate)
	for n, r := range f.rules {
		for _, l := range r.allLimits() {
			for i := range l.redisson {
				limiter := &l.redisson[i]
				all = append(all, limiter)
				before := stated[limiter.name]
				switch {
				case limiter.rate == nil:
				case before == nil:
					stated[limiter.name] = limiter.rate
					f.Rates = append(f.Rates, StatedRate{limiter.name, *limiter.rate, r.name})
				case *before != *limiter.rate:
					reason := fmt.Sprintf("the rule %q states another rate for the limiter %q than a rule before it: state it once",
						r.name, limiter.name)
					d.Problems = append(d.Problems, &rulefile.Problem{File: d.File, Line: r.line, Column: r.column,
						Field: fmt.Sprintf("rules[%d]", n), Reason: reason})
				}
			}
		}
	}
	for _, limiter := range all {
		limiter.rate = stated[limiter.name]
	}
}

// File is a decoded file of rules. It is immutable.
type File struct {
	Rates   []StatedRate // of Redisson limiters, that the file states
	Address httplimit.Address

	rules     []*rule
	settings  fileSettings
	forwarded forwardedHeaders
	all       bool // all rules that match decide, not only the first

	allowSlashes bool // paths may have escaped slashes and backslashes
	usesPaths    bool // a rule without shadow depends on the path
	usesHosts    bool // a rule without shadow depends on the host
	usesQueries  bool // a rule without shadow has a parameter of the query in its key

	http matcher
	grpc matcher
}

// Names returns the names of the rules in their order.
func (f *File) Names() []string {
	names := make([]string, len(f.rules))
	for i, r := range f.rules {
		names[i] = r.name
	}
	return names
}

func (f *File) build() {
	for i, r := range f.rules {
		enforced, bans := !r.settings.Shadow, r.onlyBans()
		f.usesPaths = f.usesPaths || enforced && r.skip != nil && len(r.skip.paths) > 0
		f.usesQueries = f.usesQueries ||
			enforced && slices.ContainsFunc(r.key, func(p keyPart) bool { return p.kind == partQuery })
		for _, c := range r.conditions {
			f.usesPaths = f.usesPaths || enforced && !c.rpc && !c.anyOf()
			f.usesHosts = f.usesHosts || enforced && c.host != ""
			if c.rpc {
				f.grpc.add(i, bans, c)
			} else {
				f.http.add(i, bans, c)
			}
		}
	}
}

// forwardedHeaders are the headers with which a proxy describes the request that it asks about.
type forwardedHeaders struct {
	MethodHeader headerName
	HostHeader   headerName
	URIHeader    headerName `file:"uri_header"`
}

type rule struct {
	name       string
	line       int
	column     int
	prefix     string // of the names of its limiters
	conditions []*condition
	key        []keyPart // nil: all requests count together
	limits     *limits
	overrides  map[string]*limits // by key
	settings   settings
	cost       cost
	skip       *skip // nil if it skips nothing
}

func (r *rule) allLimits() []*limits {
	return append([]*limits{r.limits}, slices.Collect(maps.Values(r.overrides))...)
}

// onlyBans reports whether the rule takes no permits, and so has no failure mode.
func (r *rule) onlyBans() bool {
	return !slices.ContainsFunc(r.allLimits(), func(l *limits) bool { return !l.ban && !l.pass })
}

type ruleFile struct {
	Name, Match, Limits, Ban, Overrides *rulefile.Node
	defaultsFile
}

// defaultsFile is the fields that a rule takes from the defaults if it does not have them.
type defaultsFile struct {
	Key          key
	Cost         cost
	Policy, Skip *rulefile.Node
	settings
}

// defaultPolicy is the policy if neither the limit nor the defaults name one: it is strict, and its
// state is bounded.
const defaultPolicy = "sliding_window"

// rule decodes a rule. It returns nil if it has a problem.
func (d *decoder) rule(n *rulefile.Node, defaults *defaultsFile) *rule {
	before := len(d.Problems)
	file := ruleFile{defaultsFile: *defaults}
	if !d.Fields(n, &file) {
		return nil
	}
	r := &rule{line: n.Line, column: n.Column}
	d.name(n, file.Name, r)
	if file.Match == nil {
		r.conditions = []*condition{{pattern: anyPath}, {pattern: anyPath, rpc: true}}
	} else {
		r.conditions = d.conditions(file.Match)
	}
	r.settings, r.cost, r.skip = file.settings, file.Cost, d.skip(file.Skip)
	policy := d.RatedPolicy(file.Policy, nil, defaultPolicy).Name
	r.limits = d.limitsOrBan(n, &file, policy)
	d.ruleKey(n, &file, r, file.Key.at != defaults.Key.at)
	if file.Overrides != nil {
		d.overrides(file.Overrides, r, policy)
	}
	if len(d.Problems) > before {
		return nil
	}
	return r
}

const (
	nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	longestName = 128
	wantName    = "a text of letters, digits, dots, dashes and underscores, at most 128"
)

func (d *decoder) name(n, stated *rulefile.Node, r *rule) {
	if stated == nil {
		d.Fail(n, "no name: limits count under it, and keep what was taken when the rule moves")
		return
	}
	name, ok := d.Text(stated, wantName)
	if ok && (strings.Trim(name, nameLetters) != "" || len(name) > longestName) {
		d.Fail(stated, "the name %q, want %s", rulefile.Clip(name), wantName)
	}
	r.name, r.line, r.prefix = name, stated.Line, name
	if d.domain != "" {
		r.prefix = d.domain + ":" + name
	}
}

// ruleKey sets the key of a rule, its own or that of the defaults. Bans and Redisson limiters do not use
// the key of the defaults.
func (d *decoder) ruleKey(n *rulefile.Node, file *ruleFile, r *rule, own bool) {
	needed := r.limits != nil && len(r.limits.policies) > 0
	switch {
	case file.Key.at == nil:
		if needed {
			d.Fail(n, "no key: say whose requests count together, ip or header:NAME for instance, or all")
		}
		return
	case !own && !needed && r.limits != nil && file.Overrides == nil:
		return
	case own:
		n = file.Key.at
	}
	r.key = file.Key.parts
	for _, part := range r.key {
		lacks := func(c *condition) bool {
			_, has := c.wild[part.name]
			return !has
		}
		if part.kind == partPath && slices.ContainsFunc(r.conditions, lacks) {
			d.Fail(n, "the key needs the wildcard {%s} in each pattern of match", rulefile.Clip(part.name))
		}
	}
}

// limitsOrBan decodes what a rule does with requests. It returns nil for a problem.
func (d *decoder) limitsOrBan(n *rulefile.Node, file *ruleFile, policy string) *limits {
	switch {
	case file.Ban != nil && file.Limits != nil:
		d.Fail(file.Ban, "ban and limits: a rule has one of the two")
	case file.Ban != nil:
		d.flag(file.Ban)
		return &limits{ban: true}
	case file.Limits != nil:
		return d.limits(file.Limits, policy)
	default:
		d.Fail(n, "no limits: give limits, or ban: true")
	}
	return nil
}

func (d *decoder) overrides(list *rulefile.Node, r *rule, policy string) {
	if r.key == nil {
		d.Fail(list, "the rule has no key, and so none to override")
		return
	}
	r.overrides = make(map[string]*limits)
	d.List(list, "a list of overrides, as {key: gold, limits: 1000/m}", func(n *rulefile.Node) {
		var file struct{ Key, Limits, Ban, Unlimited *rulefile.Node }
		if !d.Fields(n, &file) {
			return
		}
		if file.Key == nil {
			d.Fail(n, "no key: say whose limits these are")
			return
		}
		key, ok := d.overrideKey(file.Key, r.key, r.conditions)
		if !ok {
			return
		}
		if r.overrides[key] != nil {
			d.Fail(file.Key, "the key %q is there twice", rulefile.Clip(key))
			return
		}
		l, stated := &limits{}, 0
		if file.Limits != nil {
			l, stated = d.limits(file.Limits, policy), 1
		}
		if file.Ban != nil {
			d.flag(file.Ban)
			l, stated = &limits{ban: true}, stated+1
		}
		if file.Unlimited != nil {
			d.flag(file.Unlimited)
			l, stated = &limits{pass: true}, stated+1
		}
		if stated != 1 {
			d.Fail(n, "an override has one of limits, ban: true and unlimited: true")
		}
		r.overrides[key] = l
	})
}
