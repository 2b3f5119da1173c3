package limit

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Policy is a way to limit, as [FixedWindow] is: one of the types of this package with a rate, or
// [Pause]. Policies are plain values that can be compared. The zero value of each is invalid.
type Policy interface {
	// validate returns the error of an invalid field.
	validate() error

	// arguments appends the policy's arguments of a script, always the same number. The time is
	// zero if the server's clock is used and its time is not known yet.
	arguments(args []string, now time.Time) []string

	// forecast reads the numbers that the script's section "report" sets, all of them.
	forecast(r *redisx.Reply) forecast
}

// windowDescription describes a policy with a key that grants so many permits in an interval.
func windowDescription(key string, permits int64, interval time.Duration, refill policy.Refill) policy.Description {
	return policy.Description{
		Key: key, Quota: permits, Window: interval, Interval: interval, Refill: refill,
		Local: policy.Local{Permits: permits, Returns: permits, Interval: interval, Strict: true},
	}
}

// maxPermits is the largest number of permits: a Lua number is a double, which is exact up to 2^53.
const maxPermits = 1 << 53

func invalid(format string, values ...any) error {
	return fmt.Errorf("%w: %s", rratelimiter.ErrInvalidRate, fmt.Sprintf(format, values...))
}

// checkPermits returns the error of an invalid number of permits.
func checkPermits(kind, field string, n int64) error {
	if n < 1 || n > maxPermits {
		return invalid("%s.%s is %d, want 1 to 2^53", kind, field, n)
	}
	return nil
}

// maxInterval is the longest interval, some 285 years: its microseconds are a Lua number.
const maxInterval = maxPermits / 1000 * time.Millisecond

// checkInterval returns the error of an invalid interval.
func checkInterval(kind, field string, d time.Duration) error {
	if d < time.Millisecond || d > maxInterval || d%time.Millisecond != 0 {
		return invalid("%s.%s is %v, want whole milliseconds, 1 ms to %v", kind, field, d, maxInterval)
	}
	return nil
}

// checkRate returns the error of an invalid number of permits in an interval.
func checkRate(kind string, permits int64, interval time.Duration) error {
	return cmp.Or(checkPermits(kind, "Permits", permits), checkInterval(kind, "Interval", interval))
}

// keyPart returns the key of a policy that mixes with others of the same kind and interval.
func keyPart(kind string, interval time.Duration) string {
	return kind + ":" + strconv.FormatInt(interval.Milliseconds(), 10)
}

// Named gives a policy a name, which headers and statuses show to clients. Without it, the name of a
// policy is its window, such as second, minute, day or 10s, or its kind: bucket, leaky, smooth. The
// name changes nothing in Redis.
//
// Named panics if the name is empty or not printable ASCII.
func Named(name string, policy Policy) Policy {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		panic(fmt.Sprintf("limit: Named: the name %q of a policy is empty or not printable ASCII", name))
	}
	if n, ok := policy.(namedPolicy); ok {
		policy = n.Policy
	}
	return namedPolicy{policy, name}
}

// namedPolicy is a policy with a name. The rest of this package knows policies without names.
type namedPolicy struct {
	Policy
	name string
}

// Named returns the parts, for package policy.
func (n namedPolicy) Named() (name string, policy any) { return n.name, n.Policy }

// Policies returns the policies with which the limiter was opened, in order, with their names. The
// middleware describes them to clients. The rate of a *rratelimiter.Limiter of a [Join] is nil, since
// it is in Redis. An invalid limiter has none.
func (l *Limiter) Policies() []Policy {
	all := make([]Policy, len(l.protocol.members))
	for i, m := range l.protocol.members {
		switch {
		case m.redisson != nil:
		case m.described.Shown != "":
			all[i] = namedPolicy{m.policy, m.described.Shown}
		default:
			all[i] = m.policy
		}
	}
	return all
}

// numbersAfterEpoch parses a text of an epoch and count whole numbers of 0 or more, with spaces between them.
// If the text is another one, the numbers are 0.
func numbersAfterEpoch(text string, count int) ([]int64, bool) {
	epoch, rest, _ := strings.Cut(text, " ")
	n, ok := numbersOf(strings.Split(rest, " ")...)
	if !ok || epoch == "" || len(n) != count {
		return make([]int64, count), false
	}
	return n, true
}

// numbersOf parses words that are whole numbers of 0 or more.
func numbersOf(words ...string) ([]int64, bool) {
	all := make([]int64, len(words))
	for i, word := range words {
		n, err := strconv.ParseUint(word, 10, 63)
		if err != nil {
			return nil, false
		}
		all[i] = int64(n)
	}
	return all, true
}
