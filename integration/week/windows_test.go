package week

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// side is whose permits are compared.
type side int

const (
	neither side = iota // callers that do not wait, or not beside those of the other side
	ofGo
	ofJava
	sides
)

// log has the grants of a week, in milliseconds as limiters count.
type log struct {
	mu    sync.Mutex
	count [sides]int
	lives []life // of the data of Redis
	rates []rateChange
}

// life is the time between two losses of the data of Redis.
type life struct {
	began  int64
	grants []int64
}

type rateChange struct{ at, permits int64 }

// newLife begins with all permits free.
func (l *log) newLife() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lives = append(l.lives, life{began: time.Now().UnixMilli()})
}

func (l *log) grant(by side) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := &l.lives[len(l.lives)-1]
	now.grants = append(now.grants, time.Now().UnixMilli())
	l.count[by]++
}

func (l *log) granted(by side) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count[by]
}

// rate returns the highest rate between two times.
func (l *log) rate(from, to int64) (highest int64) {
	for i, r := range l.rates {
		if r.at < to && (i+1 == len(l.rates) || l.rates[i+1].at >= from) {
			highest = max(highest, r.permits)
		}
	}
	return highest
}

// check requires that no window of an interval has more grants than an entry point allows. Permits that were
// granted ahead may be used soon after Redis has lost its data, so windows from then are not checked.
func (l *log) check(t testing.TB, entry entryPoint) {
	length := interval.Milliseconds()
	for _, life := range l.lives {
		for i, from := range life.grants {
			if entry.ahead > 0 && from <= life.began+entry.ahead.Milliseconds() {
				continue
			}
			after, _ := slices.BinarySearch(life.grants, from+length)
			require.LessOrEqual(t, int64(after-i), entry.most*l.rate(from, from+length),
				"grants in the interval from %v", time.UnixMilli(from).UTC())
		}
	}
}
