package rls

import (
	"bytes"
	"math"
	"runtime"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"

	"github.com/rratelimiter/rratelimiter/limit"
)

// misplaced maps fields to their places, for errors about fields that belong elsewhere.
var misplaced = map[string]string{
	"domain": "the top of the file", "slot_by": "the top of the file", "http": "the top of the file",
	"key": "a descriptor", "value": "a descriptor", "rate_limit": "a descriptor", "limits": "a descriptor",
	"descriptors": "the top of the file or a descriptor",
	"shadow_mode": "the descriptor, beside rate_limit", "quota_mode": "the descriptor, beside rate_limit",
	"detailed_metric": "the descriptor, beside rate_limit",
	"value_to_metric": "the descriptor, beside rate_limit", "share_threshold": "the descriptor, beside rate_limit",
	"metadata": "the descriptor, beside rate_limit", "overdraw": "the descriptor, beside rate_limit",
	"hash_value": "the descriptor, beside rate_limit",
	"unit":       "rate_limit", "requests_per_unit": "rate_limit", "per": "rate_limit", "policy": "rate_limit",
	"unlimited": "rate_limit", "name": "rate_limit", "replaces": "rate_limit",
}

// domainFile is the top level of a file.
type domainFile struct {
	*domain
	descriptors *rulefile.Node
}

var domainFields = map[string]field[domainFile]{
	"domain":      func(r *reader, n *rulefile.Node, d *domainFile) { d.name = r.text(n) },
	"slot_by":     func(r *reader, n *rulefile.Node, d *domainFile) { d.slotBy = r.text(n) },
	"http":        func(r *reader, n *rulefile.Node, d *domainFile) { d.web = r.web(n) },
	"descriptors": func(_ *reader, n *rulefile.Node, d *domainFile) { d.descriptors = n },
}

// parse decodes one file.
func parse(file string, text []byte) (*domain, []error) {
	r := &reader{Decoder: rulefile.Decoder{File: file, Lax: true, Misplaced: misplaced}}
	if len(text) > rulefile.MostBytes { // it has grown since its size was checked
		problem := rulefile.TooLarge(int64(len(text)))
		problem.File = file
		return nil, []error{configError(problem)}
	}
	if !r.Load(text, parseYAML) {
		return nil, configErrors(r.Problems)
	}
	f := domainFile{domain: &domain{file: r.File}}
	rulefile.Fields(r, r.Root, domainFields, &f)
	if f.name == "" && len(r.Problems) == 0 {
		r.FailField(r.Root, "domain", "is empty, want a name that no other file has")
	}
	r.descriptors(f.descriptors, &f.rules, 0)
	return f.domain, configErrors(r.Problems)
}

// rulesAtOnce is the number of rules after which a reload yields the processor, so that it does not
// delay requests.
const rulesAtOnce = 16

// descriptors decodes the rules of one level.
func (r *reader) descriptors(n *rulefile.Node, into *level, depth int) {
	r.List(n, "a list", func(n *rulefile.Node) {
		if depth >= mostEntries {
			const reason = "lies %d descriptors deep, want at most %d, as many entries as a request may have"
			r.Fail(n, reason, depth+1, mostEntries)
			return
		}
		made, below := r.rule(n)
		if made == nil {
			return
		}
		if err := into.add(made); err != nil {
			r.Fail(n, "%v", err)
			return
		}
		r.descriptors(below, &made.below, depth+1)
		if r.rules%rulesAtOnce == 0 {
			runtime.Gosched()
		}
	})
}

// ruleFile is a descriptor in a file.
type ruleFile struct {
	*rule
	one      *oneLimit
	several  []*oneLimit
	limitsAt *rulefile.Node
	below    *rulefile.Node
}

var ruleFields = map[string]field[ruleFile]{
	"key":   func(r *reader, n *rulefile.Node, f *ruleFile) { f.key = r.text(n) },
	"value": func(r *reader, n *rulefile.Node, f *ruleFile) { f.value = r.text(n) },
	"rate_limit": func(r *reader, n *rulefile.Node, f *ruleFile) {
		if !r.IsAbsent(n) {
			f.one = r.limit(n)
		}
	},
	"limits": func(r *reader, n *rulefile.Node, f *ruleFile) {
		f.limitsAt = n
		r.List(n, "a list", func(n *rulefile.Node) { f.several = append(f.several, r.limit(n)) })
	},
	"descriptors":     func(_ *reader, n *rulefile.Node, f *ruleFile) { f.below = n },
	"shadow_mode":     func(r *reader, n *rulefile.Node, f *ruleFile) { f.shadow = r.Boolean(n) },
	"quota_mode":      func(r *reader, n *rulefile.Node, f *ruleFile) { f.quota = r.Boolean(n) },
	"overdraw":        func(r *reader, n *rulefile.Node, f *ruleFile) { f.overdraw = r.Boolean(n) },
	"detailed_metric": func(r *reader, n *rulefile.Node, f *ruleFile) { f.detailed = r.Boolean(n) },
	"value_to_metric": func(r *reader, n *rulefile.Node, f *ruleFile) { f.valueInName = r.Boolean(n) },
	"share_threshold": func(r *reader, n *rulefile.Node, f *ruleFile) { f.shared = r.Boolean(n) },
	"hash_value":      func(r *reader, n *rulefile.Node, f *ruleFile) { f.hashed = r.Boolean(n) },
	"metadata":        func(r *reader, n *rulefile.Node, f *ruleFile) { f.metadata = r.metadata(n) },
}

// rule decodes a descriptor, but not those below it, which it returns.
func (r *reader) rule(n *rulefile.Node) (made *rule, below *rulefile.Node) {
	r.rules++
	made = &rule{file: r.File, line: n.Line, place: r.rules}
	f := ruleFile{rule: made}
	before := len(r.Problems)
	rulefile.Fields(r, n, ruleFields, &f)
	if len(r.Problems) == before && made.key == "" {
		r.FailField(n, "key", "is empty, want the key of the request's entry")
	}
	if wild := strings.Contains(made.id(), "*"); wild {
		made.wild = bytes.Split([]byte(made.id()), []byte("*"))
	} else if made.shared {
		r.FailField(n, "share_threshold", "is set, but neither value %q nor key %q has a *", made.value, made.key)
	}
	if made.limits = f.several; f.one != nil {
		made.limits = append([]*oneLimit{f.one}, f.several...)
	}
	if len(r.Problems) > before {
		return nil, nil
	}
	if f.limitsAt != nil {
		r.checkJoint(f.limitsAt, made.limits)
	}
	return made, f.below
}

// checkJoint checks that the limits of one descriptor can decide together, with different keys of
// Redis.
func (r *reader) checkJoint(n *rulefile.Node, limits []*oneLimit) {
	var policies []limit.Policy
	for _, one := range limits {
		if one.unlimited {
			r.Fail(n, "has an unlimited limit among several, take it away")
			return
		}
		if one.budget.policy != nil {
			policies = append(policies, one.budget.policy)
		}
	}
	if len(policies) > 1 {
		if err := limit.Validate(policies...); err != nil {
			r.Fail(n, "%s", rulefile.ReasonOf(err))
		}
	}
}

// metadata decodes a mapping of any values.
func (r *reader) metadata(n *rulefile.Node) *structpb.Struct {
	if r.IsAbsent(n) {
		return nil
	}
	if n.Tag != rulefile.Mapping {
		r.Wrong(n, "a mapping")
		return nil
	}
	value, _ := r.anything(n).(map[string]any)
	made, err := structpb.NewStruct(value)
	if err != nil {
		r.Fail(n, "cannot be sent to Envoy: %v", err)
	}
	return made
}

// anything decodes a value of any type into the types of JSON.
func (r *reader) anything(n *rulefile.Node) any {
	switch n.Tag {
	case rulefile.Mapping:
		made := make(map[string]any)
		r.Pairs(n, func(name, value *rulefile.Node) { made[name.Value] = r.anything(value) })
		return made
	case rulefile.List:
		made := []any{}
		for _, value := range n.Content {
			made = append(made, r.anything(value))
		}
		return made
	case rulefile.Null:
		return nil
	case rulefile.Bool:
		return strings.EqualFold(n.Value, "true")
	case rulefile.Int:
		if whole, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			return whole
		}
	case rulefile.Float:
		if value, err := strconv.ParseFloat(n.Value, 64); err == nil && !math.IsInf(value, 0) && !math.IsNaN(value) {
			return value
		}
	}
	return n.Value
}
