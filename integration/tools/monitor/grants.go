package monitor

import (
	"container/heap"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

// Grants is what scripts put into the permits set of one limiter: the truth about its windows,
// where callers know only that they were granted something between two moments.
//
// A grant counts until its date is an interval before the latest clock seen: that of the server,
// and those that dated grants so far. Until then no other caller can have had its permits, since
// only a call with a clock so late removes it. So the permits that count are never more than the
// rate, and one permit more is seen at the script that grants it. A grant that a script removes as
// expired, rightly or not, still counts; one that a script releases by name does not.
//
// For that callers and server have one clock. Runs whose callers release permits or set the rate
// cannot be checked like this.
type Grants struct {
	key      string
	interval int64 // milliseconds
	monitor  *Monitor

	mu      sync.Mutex
	members map[string]*grant // all that were ever added and not taken out by name
	inside  byScore           // those that count, and some that were taken out by name since
	latest  int64             // the latest clock, Unix milliseconds
	held    int64             // the permits that count
	at      time.Time         // when the latest script changed something
	seen    Seen
}

// Seen has the results of a run.
type Seen struct {
	Worst    int64     // the most permits that counted at one moment
	When     time.Time // that moment
	Permits  int64     // granted, and not released
	Added    int       // members of the set
	Returned int       // members that were taken out by name
	Unknown  int       // members that cannot be read
	First    time.Time // the dates of the earliest and the latest grant
	Last     time.Time
}

type grant struct {
	score   int64
	permits int64
	counts  bool
}

// WatchGrants watches the permits set of a key on the server at addr, of a limiter with this
// interval.
func WatchGrants(t testing.TB, addr, key string, interval time.Duration) *Grants {
	t.Helper()
	g := newGrants(key, interval)
	g.monitor = Watch(t, addr, g.see)
	return g
}

func newGrants(key string, interval time.Duration) *Grants {
	return &Grants{key: key, interval: interval.Milliseconds(), members: make(map[string]*grant)}
}

// Seen returns what has happened so far.
func (g *Grants) Seen(t testing.TB) Seen {
	t.Helper()
	g.monitor.CatchUp(t)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conclude()
	return g.seen
}

// Between returns how many permits the grants have that are dated from a moment on and before
// another one, without released ones.
func (g *Grants) Between(from, to time.Time) (permits int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, one := range g.members {
		if date := time.UnixMilli(one.score); !date.Before(from) && date.Before(to) {
			permits += one.permits
		}
	}
	return permits
}

// Close ends the watch.
func (g *Grants) Close() { g.monitor.Close() }

func (g *Grants) see(c Command) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !c.Script {
		g.conclude() // the script before has ended: one that adds the rest of a grant removes the whole of it, too
		return
	}
	name := strings.ToUpper(c.Name())
	if name != "ZADD" && name != "ZREM" {
		return
	}
	words := c.Words()
	if len(words) < 3 || words[1] != g.key {
		return
	}
	g.at, g.latest = c.At, max(g.latest, c.At.UnixMilli())
	if name == "ZADD" {
		for i := 2; i+1 < len(words); i += 2 {
			g.add(words[i], words[i+1])
		}
	} else {
		for _, gone := range words[2:] {
			g.remove(gone)
		}
	}
	for len(g.inside) > 0 && g.inside[0].score <= g.latest-g.interval {
		g.uncount(heap.Pop(&g.inside).(*grant))
	}
}

func (g *Grants) add(score, name string) {
	date, err := strconv.ParseInt(score, 10, 64)
	permits := state.Decode(name).Permits
	if err != nil || permits < 0 {
		g.seen.Unknown++
		return
	}
	g.remove(name)
	at := time.UnixMilli(date)
	if g.seen.Added == 0 || at.Before(g.seen.First) {
		g.seen.First = at
	}
	if at.After(g.seen.Last) {
		g.seen.Last = at
	}
	added := &grant{score: date, permits: permits, counts: true}
	g.members[name] = added
	heap.Push(&g.inside, added)
	g.latest = max(g.latest, date)
	g.held += permits
	g.seen.Permits += permits
	g.seen.Added++
}

func (g *Grants) remove(name string) {
	if gone := g.members[name]; gone != nil {
		delete(g.members, name)
		g.uncount(gone)
		g.seen.Permits -= gone.permits
		g.seen.Returned++
	}
}

func (g *Grants) uncount(one *grant) {
	if one.counts {
		one.counts = false
		g.held -= one.permits
	}
}

func (g *Grants) conclude() {
	if g.held > g.seen.Worst {
		g.seen.Worst, g.seen.When = g.held, g.at
	}
}

// byScore is a heap with the grant of the earliest date on top.
type byScore []*grant

func (h byScore) Len() int           { return len(h) }
func (h byScore) Less(i, j int) bool { return h[i].score < h[j].score }
func (h byScore) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byScore) Push(g any)        { *h = append(*h, g.(*grant)) }
func (h *byScore) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
