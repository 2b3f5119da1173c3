package report

import (
	"fmt"
	"strings"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/audit"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
)

// Audit is the result of an audit.
type Audit struct {
	Limiters int              `json:"limiters"`
	Problems int              `json:"problems"` // unrepaired ones
	Findings []*audit.Finding `json:"findings"`
	LeftOut  int64            `json:"left_out,omitempty"`
	Newer    int64            `json:"newer,omitempty"`
}

// NewAudit counts findings.
func NewAudit(found *inspect.Found, findings []*audit.Finding) Audit {
	a := Audit{Limiters: len(NewList(found).Limiters), Findings: findings, LeftOut: found.More, Newer: found.Newer}
	for _, f := range findings {
		if f.Severity == audit.Problem && f.Result != audit.Repaired {
			a.Problems++
		}
	}
	return a
}

// Text writes the audit as text.
func (a Audit) Text(w *strings.Builder) {
	for _, f := range a.Findings {
		fmt.Fprintf(w, "%s  %s  %s\n  %s\n", f.Severity, f.Kind, names.Quote(string(f.Limiter)), f.Text)
		switch {
		case f.Result != "":
			fmt.Fprintf(w, "  %s: %s\n", f.Result, f.Repair)
		case f.Repair != "":
			fmt.Fprintf(w, "  --fix would %s\n", f.Repair)
		}
	}
	fmt.Fprintf(w, "%s, %s\n", Plural(int64(a.Limiters), "limiter"), Plural(int64(a.Problems), "problem"))
	if a.LeftOut > 0 {
		fmt.Fprintf(w, "%s of others were skipped: use a PATTERN or raise --max\n", Plural(a.LeftOut, "key"))
	}
	newer(w, a.Newer)
}
