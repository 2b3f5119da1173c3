package limit

import (
	"time"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Drip holds up to Permits, full at first, and gets one in every Interval: a [TokenBucket].
type Drip struct {
	Permits  int64         // the largest burst, 1 to 2^53
	Interval time.Duration // whole milliseconds
}

var _ = policy.Register(policy.Kind[Drip]{
	Name: "drip",
	Describe: func(p Drip) policy.Description {
		d := bucketDescription("drip", p.bucket())
		d.Lua = "tokenbucket"
		return d
	},
	New:   func(r policy.Rate) Drip { return Drip{r.Permits, r.Interval} },
	Words: []string{"drip"},
	Read:  func(p Drip, c policy.Content) (policy.State, bool) { return p.bucket().read(c) },
})

func (p Drip) bucket() TokenBucket { return TokenBucket{p.Permits, 1, p.Interval} }

func (p Drip) validate() error { return checkRate("Drip", p.Permits, p.Interval) }

func (p Drip) arguments(args []string, now time.Time) []string {
	return p.bucket().arguments(args, now)
}

func (p Drip) forecast(r *redisx.Reply) forecast { return p.bucket().forecast(r) }
