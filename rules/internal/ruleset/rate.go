package ruleset

import (
	"github.com/rratelimiter/rratelimiter/internal/notation"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// rate decodes the permits and the time of a limit: rate, or permits and per.
func (d *decoder) rate(n *rulefile.Node, file *limitFile, calendar bool) (r policy.Rate, ok bool) {
	const want = "give rate, " + notation.WantRate + ", or both permits and per"
	isPair := file.Permits != nil && file.Per != nil
	var per notation.Per
	var err error
	switch {
	case file.Rate != nil && (file.Permits != nil || file.Per != nil):
		d.Fail(n, "rate and permits or per: "+want)
		return r, false
	case file.Rate == nil && !isPair:
		d.Fail(n, "no rate: "+want)
		return r, false
	case isPair:
		n = file.Per
		text, isText := d.Text(n, "a text like second, 30s or day")
		if !isText {
			return r, false
		}
		r.Permits = d.Number(file.Permits, 0, notation.MaxPermits, "a whole number of permits, 0 to 2^53")
		per, err = notation.ParsePer(rulefile.Clip(text), calendar)
	default:
		n = file.Rate
		text, isText := d.Text(n, notation.WantRate)
		if !isText {
			return r, false
		}
		r.Permits, per, err = notation.ParseRate(rulefile.Clip(text), calendar)
	}
	if err != nil {
		d.Fail(n, "%v", err)
		return r, false
	}
	r.Interval, r.Unit = per.Interval, per.Unit
	return r, true
}

// limitFile is a limit in a file.
type limitFile struct {
	Name, Policy, Rate, Permits, Per, Redisson, Type, KeepAlive *rulefile.Node

	Own rulefile.PolicyFields
}
