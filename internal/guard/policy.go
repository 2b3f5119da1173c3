package guard

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/limit"
)

// Quota is the permits that a Decision of a policy shows as its Limit.
func Quota(p limit.Policy) int64 {
	switch p := p.(type) {
	case limit.FixedWindow:
		return p.Permits
	case limit.Calendar:
		return p.Permits
	case limit.SlidingWindow:
		return p.Permits
	case limit.SlidingLog:
		return p.Permits
	case limit.TokenBucket:
		return p.Capacity
	case limit.LeakyBucket:
		return p.Capacity
	case limit.Smooth:
		return p.Permits
	}
	return 0
}

// kindOf returns a policy without its permits. Policies of a kind count in the same key of a limiter.
func kindOf(p limit.Policy) limit.Policy {
	switch p := p.(type) {
	case limit.FixedWindow:
		p.Permits = 0
		return p
	case limit.Calendar:
		p.Permits = 0
		return p
	case limit.SlidingWindow:
		p.Permits = 0
		return p
	case limit.SlidingLog:
		p.Permits = 0
		return p
	case limit.TokenBucket:
		p.Capacity, p.Refill = 0, 0
		return p
	case limit.LeakyBucket:
		p.Capacity, p.Leak = 0, 0
		return p
	case limit.Smooth:
		p.Permits = 0
		return p
	}
	return p
}

// Window is the time in which a policy grants its quota over and over: for a bucket the time in which it fills. It is 0 where that
// has no fixed length.
func Window(p limit.Policy) time.Duration {
	switch p := p.(type) {
	case limit.FixedWindow:
		return p.Interval
	case limit.SlidingWindow:
		return p.Interval
	case limit.SlidingLog:
		return p.Interval
	case limit.Smooth:
		return p.Interval
	case limit.Calendar:
		switch p.Unit {
		case limit.Day:
			return day
		case limit.Week:
			return week
		}
	case limit.TokenBucket:
		return filling(p.Capacity, p.Refill, p.Interval)
	case limit.LeakyBucket:
		return filling(p.Capacity, p.Leak, p.Interval)
	}
	return 0
}

const (
	day  = 24 * time.Hour
	week = 7 * day
)

func filling(capacity, refill int64, interval time.Duration) time.Duration {
	return time.Duration(min(math.Ceil(float64(capacity)/float64(refill)*float64(interval)), longest))
}

// Names gives each policy a name of its own: the given one, or where that is "" one that tells its window or its kind.
func Names(policies []limit.Policy, given []string) []string {
	names := make([]string, len(policies))
	taken := make(map[string]bool)
	for _, name := range given {
		taken[name] = true
	}
	for i, p := range policies {
		if names[i] = given[i]; names[i] != "" {
			continue
		}
		names[i] = nameOf(p)
		for n := 2; taken[names[i]]; n++ {
			names[i] = fmt.Sprintf("%s-%d", nameOf(p), n)
		}
		taken[names[i]] = true
	}
	return names
}

func nameOf(p limit.Policy) string {
	switch p := p.(type) {
	case limit.Calendar:
		return strings.ToLower(p.Unit.String())
	case limit.TokenBucket:
		return "bucket"
	case limit.LeakyBucket:
		return "leaky"
	case limit.Smooth:
		return "smooth"
	}
	window := Window(p)
	switch window {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case day:
		return "day"
	case week:
		return "week"
	}
	text := window.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
