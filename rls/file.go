package rls

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/rratelimiter/rratelimiter/limit"
)

// belongs says where fields belong, for those who have put one elsewhere.
var belongs = map[string]string{
	"domain": "the top of the file", "slot_by": "the top of the file", "http": "the top of the file",
	"key": "a descriptor", "value": "a descriptor", "rate_limit": "a descriptor", "limits": "a descriptor", "descriptors": "the top of the file or a descriptor",
	"shadow_mode": "the descriptor, beside rate_limit", "quota_mode": "the descriptor, beside rate_limit", "detailed_metric": "the descriptor, beside rate_limit",
	"value_to_metric": "the descriptor, beside rate_limit", "share_threshold": "the descriptor, beside rate_limit",
	"metadata": "the descriptor, beside rate_limit", "overdraw": "the descriptor, beside rate_limit",
	"hash_value": "the descriptor, beside rate_limit",
	"unit":       "rate_limit", "requests_per_unit": "rate_limit", "per": "rate_limit", "policy": "rate_limit", "unlimited": "rate_limit", "name": "rate_limit", "replaces": "rate_limit",
}

// domainFile is the fields of a file.
type domainFile struct {
	*domain
	descriptors *yaml.Node
}

var domainFields = fields[domainFile]{
	"domain":      func(r *reader, n *yaml.Node, path string, d *domainFile) { d.name = r.text(n, path) },
	"slot_by":     func(r *reader, n *yaml.Node, path string, d *domainFile) { d.slotBy = r.text(n, path) },
	"http":        func(r *reader, n *yaml.Node, path string, d *domainFile) { d.web = r.web(n, path) },
	"descriptors": func(_ *reader, n *yaml.Node, _ string, d *domainFile) { d.descriptors = n },
}

// parse reads one file.
func parse(file string, text []byte) (*domain, []error) {
	r := &reader{file: file}
	root := r.open(text)
	if len(r.errs) > 0 {
		return nil, r.errs
	}
	if root == nil || isNull(root) {
		r.whole("is empty, want a domain and its descriptors")
		return nil, r.errs
	}
	return r.domain(root), r.errs
}

// domain reads what a file holds.
func (r *reader) domain(root *yaml.Node) *domain {
	f := domainFile{domain: &domain{file: r.file}}
	mapping(r, root, "", domainFields, &f)
	if f.name == "" && len(r.errs) == 0 {
		r.fail(root, "domain", "is empty, want a name that no other file has")
	}
	if f.descriptors != nil {
		r.descriptors(f.descriptors, "descriptors", &f.rules, 0)
	}
	return f.domain
}

// rulesAtOnce is how many rules are read before others may have the processor: so a reload holds up no request.
const rulesAtOnce = 16

// descriptors reads the rules of one level.
func (r *reader) descriptors(n *yaml.Node, path string, into *level, depth int) {
	r.list(n, path, func(n *yaml.Node, path string) {
		if depth >= mostEntries {
			const reason = "lies %d descriptors deep, want at most %d, as many entries as a request may have"
			r.fail(n, path, reason, depth+1, mostEntries)
			return
		}
		n = r.resolve(n, path)
		made := r.rule(n, path)
		if made == nil {
			return
		}
		if err := into.add(made); err != nil {
			r.fail(n, path, "%v", err)
			return
		}
		if children := child(n, "descriptors"); children != nil {
			r.descriptors(children, join(path, "descriptors"), &made.below, depth+1)
		}
		if r.rules%rulesAtOnce == 0 {
			runtime.Gosched()
		}
	})
}

// child is the value of a field, nil where there is none. Merged mappings are looked at too.
func child(n *yaml.Node, name string) *yaml.Node {
	for _, p := range new(reader).pairs(n, "", 0) {
		if p.key.Value == name {
			return p.value
		}
	}
	return nil
}

// ruleFile is the fields of a descriptor.
type ruleFile struct {
	*rule
	one      *oneLimit
	several  []*oneLimit
	limitsAt *yaml.Node
}

var ruleFields = fields[ruleFile]{
	"key":   func(r *reader, n *yaml.Node, path string, f *ruleFile) { f.key = r.text(n, path) },
	"value": func(r *reader, n *yaml.Node, path string, f *ruleFile) { f.value = r.text(n, path) },
	"rate_limit": func(r *reader, n *yaml.Node, path string, f *ruleFile) {
		if n = r.resolve(n, path); !isNull(n) {
			f.one = r.limit(n, path)
		}
	},
	"limits": func(r *reader, n *yaml.Node, path string, f *ruleFile) {
		f.limitsAt = n
		r.list(n, path, func(n *yaml.Node, path string) { f.several = append(f.several, r.limit(r.resolve(n, path), path)) })
	},
	"descriptors":     func(*reader, *yaml.Node, string, *ruleFile) {}, // once this one is known
	"shadow_mode":     func(r *reader, n *yaml.Node, path string, f *ruleFile) { f.shadow = r.flag(n, path) },
	"quota_mode":      func(r *reader, n *yaml.Node, path string, f *ruleFile) { f.quota = r.flag(n, path) },
	"overdraw":        func(r *reader, n *yaml.Node, path string, f *ruleFile) { f.overdraw = r.flag(n, path) },
	"detailed_metric": func(r *reader, n *yaml.Node, path string, f *ruleFile) { f.detailed = r.flag(n, path) },
	"value_to_metric": func(r *reader, n *yaml.Node, path string, f *ruleFile) { f.valueInName = r.flag(n, path) },
	"share_threshold": func(r *reader, n *yaml.Node, path string, f *ruleFile) { f.shared = r.flag(n, path) },
	"hash_value":      func(r *reader, n *yaml.Node, path string, f *ruleFile) { f.hashed = r.flag(n, path) },
	"metadata":        func(r *reader, n *yaml.Node, path string, f *ruleFile) { f.metadata = r.metadata(n, path) },
}

// rule reads a descriptor without those below it.
func (r *reader) rule(n *yaml.Node, path string) *rule {
	r.rules++
	made := &rule{file: r.file, line: n.Line, place: r.rules}
	f := ruleFile{rule: made}
	before := len(r.errs)
	mapping(r, n, path, ruleFields, &f)
	if len(r.errs) == before && made.key == "" {
		r.fail(n, join(path, "key"), "is empty, want the key of the request's entry")
	}
	if wild := strings.Contains(made.id(), "*"); wild {
		made.wild = bytes.Split([]byte(made.id()), []byte("*"))
	} else if made.shared {
		r.fail(n, join(path, "share_threshold"), "is set, but neither value %q nor key %q has a *", made.value, made.key)
	}
	if made.limits = f.several; f.one != nil {
		made.limits = append([]*oneLimit{f.one}, f.several...)
	}
	if len(r.errs) > before {
		return nil
	}
	if f.limitsAt != nil {
		r.together(f.limitsAt, join(path, "limits"), made.limits)
	}
	return made
}

// together says whether limits of one descriptor can be told apart, and counted apart.
func (r *reader) together(n *yaml.Node, path string, limits []*oneLimit) {
	var policies []limit.Policy
	for _, one := range limits {
		if one.unlimited {
			r.fail(n, path, "has an unlimited limit among several, take it away")
			return
		}
		if one.budget.policy != nil {
			policies = append(policies, one.budget.policy)
		}
	}
	if len(policies) > 1 {
		if err := refused(policies...); err != nil {
			r.fail(n, path, "%s", strings.TrimPrefix(err.Error(), "rratelimiter: "))
		}
	}
}

// metadata reads whatever stands there.
func (r *reader) metadata(n *yaml.Node, path string) *structpb.Struct {
	if n = r.resolve(n, path); isNull(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		r.fail(n, path, "is %s, want a mapping", told(n))
		return nil
	}
	value, _ := r.anything(n, path, 0).(map[string]any)
	made, err := structpb.NewStruct(value)
	if err != nil {
		r.fail(n, path, "cannot be told to Envoy: %v", err)
	}
	return made
}

// anything reads a value of any type as JSON has it.
func (r *reader) anything(n *yaml.Node, path string, depth int) any {
	n = r.resolve(n, path)
	if depth > mostDepth {
		r.fail(n, path, "lies more than %d values deep", mostDepth)
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		made := make(map[string]any)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := r.text(n.Content[i], path)
			made[key] = r.anything(n.Content[i+1], join(path, key), depth+1)
		}
		return made
	case yaml.SequenceNode:
		made := []any{}
		for i, value := range n.Content {
			made = append(made, r.anything(value, fmt.Sprintf("%s[%d]", path, i), depth+1))
		}
		return made
	}
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int":
		if whole, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			return whole
		}
	case "!!float":
		if value, err := strconv.ParseFloat(n.Value, 64); err == nil && !math.IsInf(value, 0) && !math.IsNaN(value) {
			return value
		}
	}
	return n.Value
}
