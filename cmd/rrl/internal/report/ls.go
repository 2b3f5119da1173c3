package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
)

// tableRow is a limiter in a list. Taken and free of a PER_CLIENT limiter are those of the client
// with the most.
type tableRow struct {
	Name     names.Name `json:"name"`
	Kind     string     `json:"kind"` // OVERALL, PER_CLIENT, or a policy of package limit
	Permits  int64      `json:"permits,omitempty"`
	Interval int64      `json:"interval_ms,omitempty"`
	Taken    *int64     `json:"taken,omitempty"`
	Free     *int64     `json:"free,omitempty"`
	Clients  *int64     `json:"clients,omitempty"`
	Paused   *int64     `json:"paused_ms,omitempty"` // the rest of a pause; 0 after it
	TTL      int64      `json:"ttl_ms"`              // -1 for never
	Wrong    []string   `json:"wrong,omitempty"`

	rate string
}

// List is a list of limiters.
type List struct {
	Limiters []tableRow `json:"limiters"`
	LeftOut  int64      `json:"left_out,omitempty"` // keys of limiters that are not listed
	Newer    int64      `json:"newer,omitempty"`    // keys of policies that this version does not know
}

// NewList creates a list, without keys that only look like a policy's.
func NewList(found *inspect.Found) List {
	l := List{Limiters: []tableRow{}, LeftOut: found.More, Newer: found.Newer}
	for _, r := range found.Redisson {
		l.Limiters = append(l.Limiters, redissonRow(r))
	}
	for _, p := range found.Policies {
		if p.TTL == inspect.NoKey || len(p.Wrong) > 0 {
			continue
		}
		line := tableRow{
			Name: names.Name(p.Name), Kind: p.Stored.String(), Interval: p.Stored.Interval.Milliseconds(), TTL: p.TTL,
		}
		switch {
		case p.Stored.Pauses():
			line.Paused = &p.Busy
		case !p.Stored.OnCredit():
			line.Taken = &p.Taken
		}
		l.Limiters = append(l.Limiters, line)
	}
	slices.SortStableFunc(l.Limiters, func(a, b tableRow) int { return cmp.Compare(a.Name, b.Name) })
	return l
}

func redissonRow(l *inspect.Redisson) tableRow {
	line := tableRow{Name: names.Name(l.Name), TTL: l.TTL, Wrong: l.Wrong}
	if !l.Valid() {
		line.Kind = "corrupt"
		return line
	}
	line.Kind, line.rate = l.Config.Type.String(), names.Rate(l.Config)
	line.Permits, line.Interval = l.Config.Permits, l.Config.Interval.Milliseconds()
	var taken, free int64 = 0, l.Config.Permits
	for _, p := range l.Pairs {
		taken, free = max(taken, p.Taken), min(free, p.Free)
		line.Wrong = append(line.Wrong, p.Wrong...)
	}
	line.Taken, line.Free = &taken, &free
	if l.Config.Type == rratelimiter.PerClient {
		n := int64(len(l.Pairs))
		line.Clients = &n
	}
	return line
}

// Text writes the list as a table with at most the given columns; 0 means any number.
func (l List) Text(w *strings.Builder, columns int) {
	if len(l.Limiters) == 0 && l.LeftOut == 0 {
		fmt.Fprintln(w, "no limiters")
		newer(w, l.Newer)
		return
	}
	var rows [][]string
	for _, r := range l.Limiters {
		expiry := expires(r.TTL)
		if r.Paused != nil && *r.Paused > 0 {
			expiry += "  paused for " + after(*r.Paused)
		}
		if len(r.Wrong) > 0 {
			expiry += "  invalid, see rrl show"
		}
		rows = append(rows, []string{
			names.Quote(string(r.Name)), r.Kind, cmp.Or(r.rate, "-"), optional(r.Taken), optional(r.Free),
			optional(r.Clients), expiry,
		})
	}
	table(w, columns, []string{"NAME", "KIND", "RATE", "TAKEN", "FREE", "CLIENTS", "EXPIRES"}, rows)
	if l.LeftOut > 0 {
		fmt.Fprintf(w, "and %s of others: use a PATTERN or raise --max\n", Plural(l.LeftOut, "key"))
	}
	newer(w, l.Newer)
}

func optional(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}
