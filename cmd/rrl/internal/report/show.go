package report

import (
	"fmt"
	"strings"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/audit"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/internal/notation"
)

// Limiter has all state of a name.
type Limiter struct {
	Name     names.Name       `json:"name"`
	Redisson *redisson        `json:"redisson,omitempty"`
	Policies []policy         `json:"policies,omitempty"`
	Findings []*audit.Finding `json:"findings"`
	LeftOut  int64            `json:"left_out,omitempty"` // keys of clients that are not shown
	Newer    int64            `json:"newer,omitempty"`    // keys of policies that this version does not know
}

type redisson struct {
	Type      string          `json:"type"`
	Permits   int64           `json:"permits"`
	Interval  int64           `json:"interval_ms"`
	KeepAlive int64           `json:"keep_alive_ms"`
	TTL       int64           `json:"ttl_ms"`
	Pairs     []*inspect.Pair `json:"pairs"` // the one of all clients, or one for each client

	config rratelimiter.Rate
	valid  bool
}

// policy is a policy of package limit. Its limit is known only if it was given.
type policy struct {
	Kind    string           `json:"kind"`
	Key     names.Name       `json:"key"`
	Permits int64            `json:"permits,omitempty"`
	Taken   *int64           `json:"taken,omitempty"`
	Busy    *int64           `json:"busy_ms,omitempty"`
	Paused  *int64           `json:"paused_ms,omitempty"` // the rest of a pause; 0 after it
	Ends    int64            `json:"ends_ms"`             // until nothing is taken
	About   bool             `json:"about,omitempty"`
	TTL     int64            `json:"ttl_ms"`
	Stored  string           `json:"stored"`
	Wrong   []string         `json:"wrong,omitempty"`
	Returns []inspect.Return `json:"returns,omitempty"`
	Places  []inspect.Place  `json:"places,omitempty"` // the oldest first

	held bool // its permits return when their holders return them
}

// NewLimiter collects the state of a name.
func NewLimiter(name string, found *inspect.Found, given []names.Given, findings []*audit.Finding) Limiter {
	l := Limiter{Name: names.Name(name), Findings: findings, LeftOut: found.More, Newer: found.Newer}
	for _, r := range found.Redisson {
		if r.Name == name {
			l.Redisson = &redisson{
				r.Config.Type.String(), r.Config.Permits, r.Config.Interval.Milliseconds(), r.Config.KeepAlive.Milliseconds(),
				r.TTL, r.Pairs, r.Config, r.Valid(),
			}
		}
	}
	for _, p := range found.Policies {
		if p.TTL == inspect.NoKey {
			continue
		}
		line := policy{Kind: p.Stored.String(), Key: names.Name(p.Key), Ends: p.Ends, About: p.About, TTL: p.TTL,
			Stored: p.Text, Wrong: p.Wrong, Returns: p.Returns, Places: p.Places[:min(len(p.Places), mostPlaces)],
			held: p.Stored.Held()}
		switch {
		case p.Stored.OnCredit():
			line.Busy = &p.Busy
		case p.Stored.Pauses():
			line.Paused = &p.Busy
		default:
			line.Taken = &p.Taken
		}
		for _, g := range given {
			if g.Stored == p.Stored {
				line.Permits = g.Most
			}
		}
		l.Policies = append(l.Policies, line)
	}
	return l
}

// Empty reports whether there is no state.
func (l Limiter) Empty() bool {
	return l.Redisson == nil && len(l.Policies) == 0 && len(l.Findings) == 0 && l.Newer == 0
}

// Corrupt returns the reason why calls of the libraries fail, "" if they do not.
func (l Limiter) Corrupt() string {
	for _, f := range l.Findings {
		if f.Corrupt {
			return f.Text
		}
	}
	return ""
}

// Text writes the limiter as text.
func (l Limiter) Text(w *strings.Builder) {
	fmt.Fprintln(w, names.Quote(string(l.Name)))
	if l.Redisson != nil {
		l.Redisson.text(w)
	}
	for _, p := range l.Policies {
		p.text(w)
	}
	if l.LeftOut > 0 {
		writeLine(w, "and", Plural(l.LeftOut, "key")+" of other clients")
	}
	if l.Newer > 0 {
		writeLine(w, "and", Plural(l.Newer, "key")+" of policies of a newer version of rrl")
	}
	if len(l.Findings) == 0 {
		writeLine(w, "wrong", "nothing")
	}
	for _, f := range l.Findings {
		writeLine(w, string(f.Severity), f.Text)
	}
}

func writeLine(w *strings.Builder, name, text string) { fmt.Fprintf(w, "  %-10s  %s\n", name, text) }

func (r *redisson) text(w *strings.Builder) {
	if !r.valid {
		writeLine(w, "kind", "Redisson, invalid configuration")
		return
	}
	writeLine(w, "kind", "Redisson "+r.Type)
	writeLine(w, "rate", fmt.Sprintf("%d in %s", r.Permits, notation.FormatDuration(r.config.Interval)))
	keeps := "no keep-alive"
	if r.KeepAlive > 0 {
		keeps = "keep-alive " + notation.FormatDuration(r.config.KeepAlive)
	}
	writeLine(w, "expires", expires(r.TTL)+", "+keeps)
	if r.config.Type == rratelimiter.PerClient {
		writeLine(w, "clients", fmt.Sprint(len(r.Pairs)))
	}
	for _, p := range r.Pairs {
		if p.Client != "" {
			writeLine(w, "client", p.Client)
		}
		about := ""
		if p.Partial {
			about = " (about, there are too many grants to count)"
		}
		writeLine(w, "free", fmt.Sprint(p.Free)+about)
		writeLine(w, "taken", fmt.Sprintf("%d, in %s", p.Taken, Plural(p.Grants-p.Left, "grant")))
		if len(p.Returns) > 0 {
			writeLine(w, "back", timeline(p.Returns))
		}
	}
}

// show has the oldest places, so many as JSON and as text.
const mostPlaces, mostWritten = 1000, 5

func timeline(returns []inspect.Return) string {
	const most = 5
	var parts []string
	var sum int64
	step := (len(returns) + most - 1) / most
	for i, r := range returns {
		sum += r.Permits
		if (i+1)%step == 0 || i == len(returns)-1 {
			parts = append(parts, fmt.Sprintf("%d in %s", sum, names.AboutMillis(r.AfterMS)))
		}
	}
	return strings.Join(parts, ", ")
}

func (p policy) text(w *strings.Builder) {
	writeLine(w, "kind", "package limit, "+p.Kind)
	if len(p.Wrong) > 0 {
		return // a finding reports it
	}
	switch {
	case p.Paused != nil && *p.Paused > 0:
		writeLine(w, "paused", "for "+names.AboutMillis(*p.Paused))
	case p.Paused != nil:
		writeLine(w, "paused", "no")
	case p.Busy != nil && *p.Busy > 0:
		writeLine(w, "next free", "in "+names.AboutMillis(*p.Busy))
	case p.Busy != nil:
		writeLine(w, "next free", "now")
	default:
		about := ""
		if p.About {
			about = " (about)"
		}
		of := ", the limit is in the program"
		if p.Permits > 0 {
			of = fmt.Sprintf(" of %d", p.Permits)
		}
		taken := "taken"
		if p.held {
			taken = "held"
		}
		writeLine(w, taken, fmt.Sprintf("%d%s%s", *p.Taken, of, about))
	}
	switch {
	case p.held && len(p.Returns) > 0:
		writeLine(w, "leases", fmt.Sprintf("the first ends in %s, the last in %s", names.AboutMillis(p.Returns[0].AfterMS),
			names.AboutMillis(p.Ends)))
		for _, one := range p.Places[:min(len(p.Places), mostWritten)] {
			renewed := ""
			if one.Renewed {
				renewed = ", renewed"
			}
			writeLine(w, "holder", fmt.Sprintf("%s for %s, its lease ends in %s%s", Plural(one.Permits, "permit"),
				names.AboutMillis(one.AgeMS), names.AboutMillis(one.EndsMS), renewed))
		}
	case len(p.Returns) > 0:
		writeLine(w, "back", timeline(p.Returns))
	case p.Ends > 0:
		writeLine(w, "back", "all in "+names.AboutMillis(p.Ends))
	}
	writeLine(w, "expires", expires(p.TTL))
}
