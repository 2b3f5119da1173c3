package httplimit

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
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

// pauseOf returns the longest time that a response asks for.
func (s *settings) pauseOf(resp *http.Response) (longest time.Duration) {
	for _, asks := range s.pauseOn {
		if d, refused := asks(resp); refused {
			longest = max(longest, d)
		}
	}
	return longest
}

// RetryAfter reads Retry-After of responses with one of the statuses, 429 and 503 without any. It is for
// [PauseOn]. The field may have seconds, a fraction, a date, or a Unix time, which is recognized by its
// size. Fractions are rounded up to seconds. Retry-After-Ms in milliseconds counts too. Of several
// values the longest counts. A response 403 without the field is no refusal.
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
				longest = max(longest, untilText(value, now))
			}
		}
		for _, text := range resp.Header.Values("Retry-After-Ms") {
			refused = true
			longest = max(longest, numberOf(text, time.Millisecond))
		}
		return longest, refused
	}
}

// QuotaReset reads pairs of fields whose names have RateLimit or Rate-Limit: X-RateLimit-Remaining and
// X-RateLimit-Reset, for instance, or Anthropic-RateLimit-Tokens-Remaining and -Reset. It also reads the
// remaining and reset of a field RateLimit. It is for [PauseOn]. A response with one of the statuses, 403
// and 429 without any, asks for the time in a Reset whose Remaining is missing or not above 0. The time may
// be seconds, a Unix time, a duration such as 6m0s, or a date. A response 403 without such a pair is no
// refusal.
func QuotaReset(statuses ...int) func(*http.Response) (time.Duration, bool) {
	if len(statuses) == 0 {
		statuses = []int{http.StatusForbidden, http.StatusTooManyRequests}
	}
	return func(resp *http.Response) (longest time.Duration, refused bool) {
		if !slices.Contains(statuses, resp.StatusCode) {
			return 0, false
		}
		now, refused := timeOf(resp), resp.StatusCode != http.StatusForbidden
		add := func(left string, resets ...string) {
			n, err := strconv.ParseFloat(left, 64)
			// A 403 without Remaining has other reasons.
			if left == "" && resp.StatusCode == http.StatusForbidden || left != "" && (err != nil || n > 0) {
				return
			}
			refused = true
			for _, text := range resets {
				longest = max(longest, untilText(text, now))
			}
		}
		for name, values := range resp.Header {
			plain := strings.Replace(name, "Rate-Limit", "Ratelimit", 1)
			if strings.Contains(plain, "Ratelimit-") && strings.Contains(name, "-Reset") {
				add(resp.Header.Get(strings.Replace(name, "-Reset", "-Remaining", 1)), values...)
			}
		}
		for _, text := range resp.Header.Values(limitField) { // of draft 7: remaining=0, reset=2
			values := make(map[string]string)
			for _, item := range strings.Split(text, ",") {
				key, value, _ := strings.Cut(strings.TrimSpace(item), "=")
				values[key] = value
			}
			if values["reset"] != "" {
				add(values["remaining"], values["reset"])
			}
		}
		return longest, refused
	}
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
					window = numberOf(value, time.Second)
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

// Numbers from these on are no durations, which would last three years, but Unix times since 1973.
const (
	firstUnix  = 1e8  // in seconds
	firstMilli = 1e11 // in milliseconds
)

// untilText returns the time until what a server has sent, 0 if that has passed or cannot be read.
func untilText(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if n := parseNumber(text); n >= firstMilli {
		return max(0, time.UnixMilli(int64(min(n, 1<<53))).Sub(now))
	} else if n >= firstUnix {
		return max(0, time.Unix(int64(math.Ceil(n)), 0).Sub(now))
	} else if n >= 0 {
		return numberOf(text, time.Second)
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

// numberOf returns a number of units, rounded up to a whole one, 0 if it cannot be read.
func numberOf(text string, unit time.Duration) time.Duration {
	n := math.Ceil(parseNumber(strings.TrimSpace(text)))
	return time.Duration(min(max(0, n), float64(math.MaxInt64/2/unit))) * unit
}

// parseNumber reads a decimal number, -1 if text is none.
func parseNumber(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if strings.Trim(text, "0123456789.") != "" || err != nil && !math.IsInf(n, 1) {
		return -1
	}
	return n
}
