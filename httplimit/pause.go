package httplimit

import (
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
)

// PauseOn sets which responses pause a [Transport]: each function returns how long a response asks
// clients to pause, and whether it is a refusal. The longest time counts. The default is [RetryAfter].
// [QuotaReset] and [RateLimit] are for providers that send other fields.
//
// A refusal without a time, or with one that cannot be read, is 0 and true. It pauses nothing by
// itself. A function of yours can wrap those of this package: it sees each response, can log and count
// refusals, and choose a time for those without one.
func PauseOn(asks ...func(*http.Response) (time.Duration, bool)) Option {
	return option(func(s *settings) { s.pauseOn = asks })
}

// RetryAfter reads Retry-After of responses with one of the statuses, 429 and 503 without any. It is for
// [PauseOn]. The field may have seconds, a fraction, a date, or a Unix time. Fractions are rounded up to
// seconds. A number that would be more than a year away is in milli-, micro- or nanoseconds.
// Retry-After-Ms in milliseconds counts too. Of several values the longest counts. A response 403 without
// the field is no refusal.
func RetryAfter(statuses ...int) func(*http.Response) (time.Duration, bool) {
	if len(statuses) == 0 {
		statuses = []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}
	}
	return func(resp *http.Response) (longest time.Duration, refused bool) {
		if !slices.Contains(statuses, resp.StatusCode) {
			return 0, false
		}
		now, refused := timeOf(resp), resp.StatusCode != http.StatusForbidden
		for _, text := range resp.Header.Values(retryField) {
			refused = true
			values := []string{text}
			if _, err := http.ParseTime(text); err != nil {
				values = strings.Split(text, ",") // which a proxy has joined
			}
			for _, value := range values {
				longest = max(longest, untilText(value, time.Second, now))
			}
		}
		for _, text := range resp.Header.Values("Retry-After-Ms") {
			refused = true
			longest = max(longest, untilText(text, time.Millisecond, now))
		}
		return longest, refused
	}
}

// QuotaReset reads pairs of fields whose names have RateLimit or Rate-Limit: X-RateLimit-Remaining and
// X-RateLimit-Reset, for instance, or Anthropic-RateLimit-Tokens-Remaining and -Reset. It also reads the
// remaining and reset of a field RateLimit. It is for [PauseOn]. A response with one of the statuses, 403
// and 429 without any, asks for the time in a Reset whose Remaining is missing or not above 0. The time may
// be as in [RetryAfter], or a duration such as 6m0s. It is in milliseconds if the name of the Reset says so,
// as X-RateLimit-Reset-Ms or -Reset-After-Ms. A response 403 without such a pair is no refusal.
func QuotaReset(statuses ...int) func(*http.Response) (time.Duration, bool) {
	if len(statuses) == 0 {
		statuses = []int{http.StatusForbidden, http.StatusTooManyRequests}
	}
	return func(resp *http.Response) (longest time.Duration, refused bool) {
		if !slices.Contains(statuses, resp.StatusCode) {
			return 0, false
		}
		now, refused := timeOf(resp), resp.StatusCode != http.StatusForbidden
		add := func(left string, unit time.Duration, resets ...string) {
			n, err := strconv.ParseFloat(left, 64)
			// A 403 without Remaining has other reasons.
			if left == "" && resp.StatusCode == http.StatusForbidden || left != "" && (err != nil || n > 0) {
				return
			}
			refused = true
			for _, text := range resets {
				longest = max(longest, untilText(text, unit, now))
			}
		}
		for name, values := range resp.Header {
			if remaining, unit := remainingOf(name); remaining != "" {
				add(resp.Header.Get(remaining), unit, values...)
			}
		}
		for _, text := range resp.Header.Values(limitField) { // of draft 7: remaining=0, reset=2
			values := make(map[string]string)
			for _, item := range strings.Split(text, ",") {
				key, value, _ := strings.Cut(strings.TrimSpace(item), "=")
				values[key] = value
			}
			if values["reset"] != "" {
				add(values["remaining"], time.Second, values["reset"])
			}
		}
		return longest, refused
	}
}

// timeWord matches a word of a name that describes a time. Its group has milliseconds.
var timeWord = regexp.MustCompile(
	`^(?:after|in|at|date|time|timestamp|epoch|unix|utc|seconds|secs?)*(ms|msecs?|millis|milliseconds?)?$`)

// remainingOf returns the name of the field with the permits that are left of a quota, by the name of the
// field with its reset, and the unit of that. The words on the time are in the latter alone. It returns ""
// for a field of no quota.
func remainingOf(reset string) (remaining string, unit time.Duration) {
	name := strings.ReplaceAll(strings.ToLower(reset), "_", "-")
	prefix, rest, found := cutAfter(name, "ratelimit")
	if !found {
		prefix, rest, _ = cutAfter(name, "rate-limit")
	}
	words, isReset := []string{prefix}, false
	unit = time.Second
	for word := range strings.SplitSeq(rest, "-") {
		if behind, ok := strings.CutPrefix(word, "reset"); ok {
			words, isReset, word = append(words, "remaining"), true, behind
		}
		if found := timeWord.FindStringSubmatch(word); found == nil {
			words = append(words, word)
		} else if found[1] != "" {
			unit = time.Millisecond
		}
	}
	if !isReset {
		return "", 0
	}
	return strings.Join(words, "-"), unit
}

func cutAfter(text, part string) (before, after string, found bool) {
	before, after, found = strings.Cut(text, part)
	return before + part, after, found
}

// RateLimit reads the field RateLimit of draft-ietf-httpapi-ratelimit-headers-11, as [Draft11] sets it.
// It is for [PauseOn]. A response of any status asks for the time t of each policy of which r=0
// permits are left. So a client stops before it is refused.
func RateLimit(resp *http.Response) (longest time.Duration, refused bool) {
	for _, text := range resp.Header.Values(limitField) {
		for _, item := range splitQuoted(text, ',') {
			parameters := splitQuoted(item, ';')
			var window time.Duration
			empty := false
			for _, p := range parameters[1:] {
				switch name, value, _ := strings.Cut(strings.TrimSpace(p), "="); name {
				case "r":
					empty = value == "0"
				case "t":
					window = untilText(value, time.Second, timeOf(resp))
				}
			}
			if empty {
				refused, longest = true, max(longest, window)
			}
		}
	}
	return longest, refused
}

// splitQuoted splits the text of a structured field at a separator outside of strings.
func splitQuoted(text string, separator byte) (parts []string) {
	begin, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == separator && !quoted:
			parts, begin = append(parts, text[begin:i]), i+1
		}
	}
	return append(parts, text[begin:])
}

// timeOf returns the time by the server's clock, which dates in its response refer to.
func timeOf(resp *http.Response) time.Time {
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		return date
	}
	return time.Now()
}

// year is the longest time that a number is read as: a longer one is in a smaller unit.
const year = 366 * 24 * time.Hour

// untilText returns the time until what a server has sent, 0 if that has passed or cannot be read.
func untilText(text string, unit time.Duration, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if n := parseNumber(text); n >= 0 {
		return untilNumber(n, unit, now)
	}
	if d, err := time.ParseDuration(text); err == nil {
		return max(0, d)
	}
	for _, layout := range []string{time.RFC3339, http.TimeFormat, time.RFC850, time.ANSIC} {
		if at, err := time.Parse(layout, text); err == nil {
			return max(0, at.Sub(now))
		}
	}
	return 0
}

// untilNumber returns the time until a number of units, rounded up to a whole one, have passed from now on,
// or since 1970. If that is more than a year away, the unit is the next smaller one.
func untilNumber(n float64, unit time.Duration, now time.Time) time.Duration {
	for n = math.Ceil(n); unit > 0; unit /= 1000 {
		if n >= float64(math.MaxInt64/unit) {
			continue
		}
		d := time.Duration(n) * unit
		if d <= year {
			return d
		}
		if left := time.Unix(0, int64(d)).Sub(now); left.Abs() <= year {
			return max(0, left)
		}
	}
	return math.MaxInt64
}

// parseNumber reads a decimal number, -1 if text is none.
func parseNumber(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if strings.Trim(text, "0123456789.") != "" || err != nil && !math.IsInf(n, 1) {
		return -1
	}
	return n
}

// FollowQuota has a [Transport] follow the provider's own count. Other programs may use the same quota. A
// response that says how much of it is left drains the limiter to that number, if it has more:
// [limit.Limiter.Drain]. It never adds permits. All processes that share the limiter slow down, and not only
// after a refusal.
//
// It reads the fields that [QuotaReset] and [RateLimit] read: X-RateLimit-Remaining, for instance, and those of
// a kind, as Anthropic-RateLimit-Tokens-Remaining or X-RateLimit-Remaining-Minute. Without kinds, those count
// that have none or the kind "requests", and each policy of a field RateLimit. With kinds, such as "tokens",
// "input-tokens", "minute" or the name of a policy, only theirs do. Of several numbers the least counts.
//
// The Transport makes a call to Redis only if a number is below what its last grant left. Nothing waits for
// it. A response to a request that was granted before one whose response has counted is ignored. So is one
// that comes when a window that its request counts in is over. Permits that came free since the request was
// granted are added to its number.
//
// Use a FixedWindow, a Calendar or a bucket as the provider does, or a SlidingLog: a drained permit returns
// when a granted one would.
func FollowQuota(kinds ...string) Option { return common(gate.FollowQuota(kinds)) }
