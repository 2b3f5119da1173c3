package ruleset

import (
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"github.com/rratelimiter/rratelimiter/limit"
)

const wantRate = "a text like 10/s, 100/minute, 5/30s or 1000/day"

var units = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "second": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hour": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour,
	"w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour,
}

var calendarUnits = map[string]limit.Unit{
	"d": limit.Day, "day": limit.Day, "w": limit.Week, "week": limit.Week, "month": limit.Month, "year": limit.Year,
}

// rate decodes the permits and the time of a limit: rate, or permits and per.
func (d *decoder) rate(n *rulefile.Node, file *limitFile, calendar bool) (r policy.Rate, ok bool) {
	isPair := file.Permits != nil && file.Per != nil
	switch {
	case file.Rate != nil && (file.Permits != nil || file.Per != nil):
		d.Fail(n, "rate and permits or per: give rate, %s, or both permits and per", wantRate)
	case file.Rate == nil && !isPair:
		d.Fail(n, "no rate: give rate, %s, or both permits and per", wantRate)
	case isPair:
		if text, ok := d.Text(file.Per, "a text like second, 30s or day"); ok {
			r.Permits = d.Number(file.Permits, 0, rulefile.MaxRate, "a whole number of permits, 0 to 2^53")
			return r, d.per(file.Per, text, &r, calendar)
		}
	default:
		text, ok := d.Text(file.Rate, wantRate)
		if !ok {
			return r, false
		}
		count, per, found := strings.Cut(text, "/")
		permits, err := strconv.ParseUint(strings.TrimSpace(count), 10, 63)
		if found && err == nil && permits <= rulefile.MaxRate {
			r.Permits = int64(permits)
			return r, d.per(file.Rate, strings.TrimSpace(per), &r, calendar)
		}
		d.Fail(file.Rate, "%q is no rate, want %s", rulefile.Clip(text), wantRate)
	}
	return r, false
}

// per decodes the time of a rate: a unit, or a duration.
func (d *decoder) per(n *rulefile.Node, text string, r *policy.Rate, calendar bool) (ok bool) {
	unit := calendarUnits[text]
	if calendar {
		if r.Unit = int(unit); unit == 0 {
			d.Fail(n, "no unit %q of the calendar, want one of %s", rulefile.Clip(text), rulefile.NamesOf(calendarUnits))
		}
		return unit != 0
	}
	if r.Interval, ok = units[text]; !ok {
		r.Interval, ok = rulefile.ParseDuration(text)
	}
	switch {
	case ok:
	case unit != 0:
		d.Fail(n, "a %s has no fixed length: give policy: calendar with it", text)
	case text != "" && text[0] >= '0' && text[0] <= '9':
		d.Fail(n, "%q is no length of time, want %s", rulefile.Clip(text), rulefile.WantDuration)
	default:
		d.Fail(n, "no unit %q, want one of %s, or a length of time like 30s", rulefile.Clip(text), rulefile.NamesOf(units))
	}
	return ok
}

type limitFile struct {
	Name, Policy, Rate, Permits, Per, Redisson, Type, KeepAlive *rulefile.Node

	Own rulefile.PolicyFields
}
