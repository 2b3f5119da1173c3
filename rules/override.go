package rules

import "github.com/rratelimiter/rratelimiter/internal/rulefile"

// overrideFile is an override in a file.
type overrideFile struct {
	keys, limits, ban, unlimited *rulefile.Node
}

var overrideFields = map[string]field[overrideFile]{
	"key":       func(_ *decoder, n *rulefile.Node, o *overrideFile) { o.keys = n },
	"limits":    func(_ *decoder, n *rulefile.Node, o *overrideFile) { o.limits = n },
	"ban":       func(_ *decoder, n *rulefile.Node, o *overrideFile) { o.ban = n },
	"unlimited": func(_ *decoder, n *rulefile.Node, o *overrideFile) { o.unlimited = n },
}

// overrides decodes the limits of single keys of a rule.
func (d *decoder) overrides(file *ruleFile, r *rule, policy string) {
	if r.key == nil {
		d.Fail(file.overrides, "the rule has no key, and so none to override")
		return
	}
	r.overrides = make(map[string]*limits)
	d.List(file.overrides, "a list of overrides, as {key: gold, limits: 1000/m}", func(n *rulefile.Node) {
		o := overrideFile{}
		if !rulefile.Fields(d, n, overrideFields, &o) {
			return
		}
		if o.keys == nil {
			d.Fail(n, "no key: say whose limits these are")
			return
		}
		key, ok := d.overrideKey(o.keys, r.key)
		if !ok {
			return
		}
		if r.overrides[key] != nil {
			d.Fail(o.keys, "the key %q is there twice", rulefile.Clip(key))
			return
		}
		given := 0
		l := &limits{}
		if o.limits != nil {
			given++
			l = d.limits(o.limits, policy)
		}
		for _, flag := range []struct {
			n   *rulefile.Node
			set func()
		}{{o.ban, func() { l = &limits{refuse: true} }}, {o.unlimited, func() { l = &limits{pass: true} }}} {
			if flag.n == nil {
				continue
			}
			if given++; !d.Boolean(flag.n) {
				d.Fail(flag.n, "want true, or leave it out")
			}
			flag.set()
		}
		if given != 1 {
			d.Fail(n, "an override has one of limits, ban: true and unlimited: true")
		}
		r.overrides[key] = l
	})
}
