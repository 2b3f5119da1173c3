package gate

import (
	"context"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// quotas follows the counts of providers: by the names of limiters.
type quotas struct {
	mu     sync.Mutex
	byName map[string]*quota
}

type quota struct {
	free     int64     // permits that the last grant or drain of this gate left
	answered time.Time // when the request was granted whose answer counted last
	draining bool
}

// of returns the entry of a name. It returns nil if there are too many. The quotas are locked.
func (q *quotas) of(name string) *quota {
	one := q.byName[name]
	if one == nil && len(q.byName) < maxPauses {
		if q.byName == nil {
			q.byName = make(map[string]*quota)
		}
		one = &quota{free: math.MaxInt64}
		q.byName[name] = one
	}
	return one
}

// isCounted reports whether it is known what the grant of a request left.
func (v *Visit[R]) isCounted() bool {
	return v != nil && v.Result == limit.Acquired && !v.Local && v.Description != nil && v.Decision.Limit > 0
}

// FollowQuota returns the change of the option of that name.
func FollowQuota(kinds []string) Setting {
	return func(s *Settings) { s.Follows, s.Kinds = true, kinds }
}

// Granted notes what a grant left, for Follow.
func (g *Gate[R]) Granted(v *Visit[R]) {
	if !g.Follows || !v.isCounted() {
		return
	}
	g.quotas.mu.Lock()
	defer g.quotas.mu.Unlock()
	if q := g.quotas.of(v.Limiter); q != nil {
		q.free = v.Decision.Remaining
	}
}

// windowMargin is the time before the end of a window in which an answer no longer counts: the next window
// may begin before the drain arrives.
const windowMargin = 100 * time.Millisecond

// Follow drains the limiter of a request to what its answer says is left of the quota, if it has more. It
// waits for no call.
func (g *Gate[R]) Follow(v *Visit[R], h http.Header) {
	if !g.Follows || !v.isCounted() {
		return
	}
	left, ok := remainingOf(h, g.Kinds)
	limiter, drains := v.Ask.Limiter.(interface {
		Drain(ctx context.Context, leave int64) (rratelimiter.Decision, error)
	})
	age := time.Since(v.At)
	if !ok || !drains || v.windowEndsBy(age+windowMargin) {
		return
	}
	left += v.returnedIn(age)
	g.quotas.mu.Lock()
	defer g.quotas.mu.Unlock()
	q := g.quotas.of(v.Limiter)
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
	one := v.Decision
	for i, kind := range v.Description.kinds {
		if len(v.Each) == len(v.Description.kinds) {
			one = v.Each[i]
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
