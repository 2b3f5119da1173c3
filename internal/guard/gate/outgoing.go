package gate

// The outgoing requests of a client, which follows what servers answer: pauses that they ask for, and their own counts.

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Outgoing is the gate of the outgoing requests of a client.
type Outgoing[R Request[R]] struct {
	*Gate[R]
	pauses pauses
	quotas quotas
}

// NewOutgoing returns the gate of a client.
func NewOutgoing[R Request[R]](caller string, o Options[R]) *Outgoing[R] {
	g := &Outgoing[R]{Gate: NewGate(caller, o)}
	g.Wait, g.maxWaiting, g.paused = cmp.Or(o.Wait, inside.Forever), 0, g.pauses.left
	return g
}

// NotSent returns the error of an outgoing request that was refused. It wraps the error of the
// middleware, and the reason if there is one.
func (v *Visit[R]) NotSent(err error) error {
	o := v.Answer.Outcome
	after := o.Decision.RetryAfter
	// Whole seconds, so that equal errors have equal texts.
	seconds := time.Duration(RoundUp(after, time.Second)) * time.Second
	switch {
	case o.Err != nil:
		return fmt.Errorf("%w: %w", err, o.Err)
	case after > 0 && o.Decision.Limit == 0:
		return fmt.Errorf("%w: limiter %q: paused for %v", err, o.Limiter, seconds)
	case after > 0:
		return fmt.Errorf("%w: limiter %q: not enough permits (%d) in time, but in %v", err, o.Limiter, o.Cost, seconds)
	}
	return fmt.Errorf("%w: limiter %q: not enough permits (%d) in time", err, o.Limiter, o.Cost)
}

// Return begins to return what a request has held, if it was limited. It does so once.
func (v *Visit[R]) Return() {
	if v != nil {
		v.Answer.Receipt.Hold.Return()
	}
}

// byName has an entry by the name of a limiter, at most maxNames of them. The zero value has none.
type byName[E any] struct {
	mu        sync.Mutex
	entries   map[string]E
	nextSweep time.Time
}

const maxNames = 1 << 16

// hasRoomLocked reports whether there is room for the entry of a name. It drops those that are over, at most once in a
// time. The lock is held.
func (n *byName[E]) hasRoomLocked(name string, now time.Time, every time.Duration, isOver func(E) bool) bool {
	if n.entries == nil {
		n.entries = make(map[string]E)
	}
	if now.After(n.nextSweep) {
		n.nextSweep = now.Add(every)
		maps.DeleteFunc(n.entries, func(_ string, one E) bool { return isOver(one) })
	}
	_, ok := n.entries[name]
	return ok || len(n.entries) < maxNames
}

// pauseSweep is the time between sweeps of pauses that have ended.
const pauseSweep = time.Second

// longestPause is the longest pause of a limiter without a limit.Pause, even if a server asks for
// more.
const longestPause = time.Minute

// pauses are the pauses that servers have asked of outgoing calls. No call with a limiter of a
// paused name is sent before the pause ends. The zero value has none.
type pauses struct{ byName[pause] }

// pause is a pause of a name.
type pause struct {
	until time.Time
	// inRedis is set once Redis has the pause. From then on Redis decides, and the pause can be ended
	// there. While Redis is down, the pause holds.
	inRedis bool
}

// add pauses a name, or extends its pause, and returns the end. A limiter without a name cannot be
// paused.
func (p *pauses) add(name string, d time.Duration) (until time.Time) {
	now := time.Now()
	until = now.Add(d)
	if name == "" {
		return until
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	hasRoom := p.hasRoomLocked(name, now, pauseSweep, func(one pause) bool { return !one.until.After(now) })
	if hasRoom && !until.Before(p.entries[name].until) {
		p.entries[name] = pause{until: until}
	}
	return until
}

// markInRedis marks the pause of a name as one of Redis, unless it was extended since.
func (p *pauses) markInRedis(name string, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one, ok := p.entries[name]; ok && one.until.Equal(until) {
		p.entries[name] = pause{until, true}
	}
}

// left returns the rest of the pause of a name, 0 for none, and whether Redis has it.
func (p *pauses) left(name string) (rest time.Duration, inRedis bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, ok := p.entries[name]
	if !ok {
		return 0, false
	}
	if rest = time.Until(one.until); rest <= 0 {
		delete(p.entries, name)
	}
	return max(0, rest), one.inRedis
}

// PauseFor pauses the limiter of a request for the longest time that its answer asks for by one of some functions.
func PauseFor[R Request[R], A any](g *Outgoing[R], v *Visit[R], answer A, asks []func(A) (time.Duration, bool)) {
	if v == nil || v.Limiter == nil {
		return
	}
	longest := time.Duration(0)
	for _, ask := range asks {
		if d, refused := ask(answer); refused {
			longest = max(longest, d)
		}
	}
	g.Pause(v.Limiter, longest)
}

// pauseDeadline bounds the call that begins a pause in Redis. No caller waits for it.
const pauseDeadline = 10 * time.Second

// Pause pauses a limiter because a server asked for it: for the callers of the gate at once, and for
// all processes if it has a limit.Pause. If that call to Redis fails, the gate pauses alone.
func (g *Outgoing[R]) Pause(l limit.Joinable, d time.Duration) {
	if d <= 0 {
		return
	}
	d = min(d, longestPauseOf(l))
	name := l.Name()
	until := g.pauses.add(name, d)
	shared, ok := l.(interface {
		Pause(ctx context.Context, d time.Duration) error
	})
	if !ok {
		return
	}
	go func() {
		ctx, end := context.WithTimeout(context.Background(), pauseDeadline)
		defer end()
		if shared.Pause(ctx, d) == nil { // without a limit.Pause, it sends nothing and fails
			g.pauses.markInRedis(name, until)
		}
	}()
}

// longestPauseOf returns the longest pause of a limiter by the answer of a server.
func longestPauseOf(l limit.Joinable) time.Duration {
	most := time.Duration(0)
	for _, one := range outage.PoliciesOf(l) {
		if p, ok := policy.Plain(one).(limit.Pause); ok && (most == 0 || p.Most < most) {
			most = p.Most
		}
	}
	if most == 0 {
		return longestPause
	}
	return most
}

// quotas follows the counts of providers: by the names of limiters.
type quotas struct{ byName[*quota] }

// quotaFor is how long the count of a name is kept after its last grant or answer. A request that takes longer costs a
// drain more, and its late answer may count.
const quotaFor = 10 * time.Minute

type quota struct {
	used     time.Time
	free     int64     // permits that the last grant or drain of this gate left
	answered time.Time // when the request was granted whose answer counted last
	draining bool
}

// entryLocked returns the entry of a name, nil if there are too many. The lock is held.
func (q *quotas) entryLocked(name string) *quota {
	now := time.Now()
	isOver := func(one *quota) bool { return now.Sub(one.used) >= quotaFor }
	if !q.hasRoomLocked(name, now, quotaFor, isOver) {
		return nil
	}
	one := q.entries[name]
	if one == nil {
		one = &quota{free: math.MaxInt64}
		q.entries[name] = one
	}
	one.used = now
	return one
}

// isCounted reports whether it is known what the grant of a request left.
func (v *Visit[R]) isCounted() bool {
	return v != nil && v.Description != nil &&
		v.Answer.Result == limit.Acquired && !v.Answer.Local && v.Answer.Decision.Limit > 0
}

// Granted notes what a grant left, for Follow.
func (g *Outgoing[R]) Granted(v *Visit[R]) {
	if !g.Follows || !v.isCounted() {
		return
	}
	g.quotas.mu.Lock()
	defer g.quotas.mu.Unlock()
	if q := g.quotas.entryLocked(v.Answer.Limiter); q != nil {
		q.free = v.Answer.Decision.Remaining
	}
}

// windowMargin is the time before the end of a window in which an answer no longer counts: the next window
// may begin before the drain arrives.
const windowMargin = 100 * time.Millisecond

// Follow drains the limiter of a request to what its answer says is left of the quota, if it has more. It
// waits for no call.
func (g *Outgoing[R]) Follow(v *Visit[R], h http.Header) {
	if !g.Follows || !v.isCounted() {
		return
	}
	left, ok := remainingOf(h, g.Kinds)
	limiter, drains := v.Limiter.(interface {
		Drain(ctx context.Context, leave int64) (rratelimiter.Decision, error)
	})
	age := time.Since(v.At)
	if !ok || !drains || v.windowEndsBy(age+windowMargin) {
		return
	}
	left += v.returnedIn(age)
	g.quotas.mu.Lock()
	defer g.quotas.mu.Unlock()
	q := g.quotas.entryLocked(v.Answer.Limiter)
	if q == nil || v.At.Before(q.answered) {
		return
	}
	if q.answered = v.At; left >= q.free || q.draining {
		return
	}
	q.draining = true
	go func() {
		ctx, end := context.WithTimeout(context.Background(), pauseDeadline)
		defer end()
		after, err := limiter.Drain(ctx, left)
		g.quotas.mu.Lock()
		defer g.quotas.mu.Unlock()
		if q.draining = false; err == nil {
			q.free = after.Remaining
		}
	}()
}

// windowEndsBy reports whether a window in which the request counts ends within a time of its grant.
func (v *Visit[R]) windowEndsBy(age time.Duration) bool {
	one := v.Answer.Decision
	for i, kind := range v.Description.kinds {
		if len(v.Answer.Each) == len(v.Description.kinds) {
			one = v.Answer.Each[i]
		}
		if kind.Refill == policy.Together && one.ResetAfter <= age {
			return true
		}
	}
	return false
}

// returnedIn returns how many permits return within a time, at the rate of the fastest policy.
func (v *Visit[R]) returnedIn(age time.Duration) (permits int64) {
	for _, kind := range v.Description.kinds {
		if kind.Refill == policy.ByAge || kind.Refill == policy.Evenly || kind.Refill == policy.OnCredit {
			rate := float64(kind.Local.Returns) / float64(kind.Local.Interval)
			permits = max(permits, int64(rate*float64(age)))
		}
	}
	return permits
}

var (
	item      = regexp.MustCompile(`"([^"]*)"[^,"]*;\s*r=(\d+)`) // of draft 11: "minute";r=50;t=30
	remaining = regexp.MustCompile(`\bremaining=(\d+)`)          // of draft 7: limit=10, remaining=5, reset=2
)

// remainingOf returns the least of the permits that the fields of an answer say are left of some kinds, such
// as "tokens". Without kinds, it is that of requests.
func remainingOf(h http.Header, kinds []string) (left int64, ok bool) {
	left = math.MaxInt64
	add := func(kind, text string, byDefault bool) {
		if len(kinds) > 0 && !slices.Contains(kinds, kind) || len(kinds) == 0 && !byDefault {
			return
		}
		if n, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil && n >= 0 {
			left, ok = min(left, int64(min(n, 1<<53))), true
		}
	}
	for name, values := range h {
		name = strings.ToLower(strings.Replace(name, "Rate-Limit", "Ratelimit", 1))
		for _, text := range values {
			if name == "ratelimit" {
				for _, found := range item.FindAllStringSubmatch(text, -1) {
					add(strings.ToLower(found[1]), found[2], true)
				}
				for _, found := range remaining.FindAllStringSubmatch(text, -1) {
					add("", found[1], true)
				}
			} else if _, words, ok := strings.Cut(name, "ratelimit-"); ok && strings.Contains(words, "remaining") {
				kind := strings.Trim(strings.Replace(words, "remaining", "", 1), "-")
				number, _, _ := strings.Cut(text, ",")
				add(kind, number, kind == "" || kind == "requests")
			}
		}
	}
	return left, ok
}
