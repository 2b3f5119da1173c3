package limit

import (
	"strconv"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// SlidingLog grants at most Permits in any interval, to the millisecond: a permit returns an
// interval after it was taken. An Overall [rratelimiter.Limiter] does the same.
//
// It logs when permits were taken: one entry of some 30 bytes for each millisecond with grants. If
// that is too much, use [SlidingWindow], which counts in cells. It is exact while less than 2^53
// permits are taken. Only Charge can take more; then counts are rounded to 15 digits.
//
// Release returns the oldest permits. A refund, as [Taken.Settle] makes, returns those of its own grant.
// If more than 256 entries have followed that grant, it returns nothing: the permits stay taken until
// an interval after they were taken. For estimates that are settled so late, use [SlidingWindow].
//
// If more than 256 entries have to return for a request, RetryAfter of a Decision is the time until
// that many have.
type SlidingLog struct {
	Permits  int64         // an interval, 1 to 2^53
	Interval time.Duration // whole milliseconds
}

var _ = policy.Register(policy.Kind[SlidingLog]{
	Name: "sliding_log",
	Describe: func(p SlidingLog) policy.Description {
		d := windowDescription(keyPart("log", p.Interval), p.Permits, p.Interval, policy.ByAge)
		d.Type = "list"
		return d
	},
	New:   func(r policy.Rate) SlidingLog { return SlidingLog{r.Permits, r.Interval} },
	Words: []string{"log"},
	Read:  SlidingLog.read,
})

// logEntry is an entry of the list. Times are milliseconds.
type logEntry struct{ at, ahead, permits, total int64 }

// parseLogEntry parses an entry: "<epoch> <time, ms> <ahead, ms> <count> <total>".
func parseLogEntry(text string) (e logEntry, ok bool) {
	n, ok := numbersAfterEpoch(text, 4)
	return logEntry{n[0], n[1], n[2], n[3]}, ok
}

// read reads the entries. Those within the interval count, by the latest time that the newest entry
// has seen.
func (p SlidingLog) read(c policy.Content) (s policy.State, ok bool) {
	newest, ok := parseLogEntry(c.Text)
	if !ok {
		return s, false
	}
	now, interval := c.Now.UnixMilli(), p.Interval.Milliseconds()
	expired := max(now, newest.at+newest.ahead) - interval
	if newest.at <= expired {
		return s, true
	}
	for text := range c.Entries {
		e, ok := parseLogEntry(text)
		switch {
		case !ok:
			return s, false
		case e.at <= expired || e.permits == 0:
			continue
		case len(s.Returns) == 0: // the difference of two totals, which wrap at 2^53
			s.Taken = e.permits + (newest.total-e.total+maxPermits)%maxPermits
		}
		s.Returns = append(s.Returns, policy.Return{AfterMS: e.at + interval - now, Permits: e.permits})
		if len(s.Returns) == policy.MaxReturns {
			break
		}
	}
	s.Ends = newest.at + interval - now
	return s, true
}

func (p SlidingLog) validate() error { return checkRate("SlidingLog", p.Permits, p.Interval) }

func (p SlidingLog) arguments(args []string, _ time.Time) []string {
	return append(args, strconv.FormatInt(p.Permits, 10), strconv.FormatInt(p.Interval.Milliseconds(), 10))
}

func (p SlidingLog) forecast(r *redisx.Reply) forecast { return returnsOf(p.Permits, p.Interval, r) }
