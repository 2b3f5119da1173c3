package guard

import (
	"log/slog"
	"strconv"
	"strings"

	"github.com/rratelimiter/rratelimiter"
)

// Report is the decision on a request as logs show it. Fields without a value are left out.
type Report struct {
	Result        Result
	Shadow, Local bool
	Limiter       string
	Cost          int64
	Decision      rratelimiter.Decision
	Violated      []string // the names of the policies that denied
	Err           error
}

func (r Report) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("result", r.Result.String())}
	add := func(shown bool, attr slog.Attr) {
		if shown {
			attrs = append(attrs, attr)
		}
	}
	add(r.Shadow, slog.Bool("shadow", true))
	add(r.Local, slog.Bool("local", true))
	add(r.Limiter != "", slog.String("limiter", r.Limiter))
	add(r.Cost != 0, slog.Int64("cost", r.Cost))
	d, numbers := r.Decision, r.Decision.Limit > 0
	add(numbers, slog.Int64("limit", d.Limit))
	add(numbers, slog.Int64("remaining", d.Remaining))
	add(d.RetryAfter > 0, slog.Duration("retry_after", d.RetryAfter))
	add(numbers, slog.Duration("reset_after", d.ResetAfter))
	add(len(r.Violated) > 0, slog.Any("violated", r.Violated))
	add(r.Err != nil, slog.Any("error", r.Err))
	return attrs
}

// LogValue returns a group of the fields.
func (r Report) LogValue() slog.Value { return slog.GroupValue(r.attrs()...) }

// String returns the fields as slog's text handler writes them.
func (r Report) String() string {
	var text strings.Builder
	for i, attr := range r.attrs() {
		if i > 0 {
			text.WriteByte(' ')
		}
		value := attr.Value.String()
		if value == "" || strings.ContainsFunc(value, isQuoted) {
			value = strconv.Quote(value)
		}
		text.WriteString(attr.Key + "=" + value)
	}
	return text.String()
}

// isQuoted reports whether a value with this rune is quoted.
func isQuoted(r rune) bool { return r <= ' ' || r == '"' || r == '=' || !strconv.IsPrint(r) }
