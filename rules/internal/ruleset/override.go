package ruleset

import "github.com/rratelimiter/rratelimiter/internal/rulefile"

// overrides decodes the limits of single keys of a rule.
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
		key, ok := d.overrideKey(file.Key, r.key)
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
