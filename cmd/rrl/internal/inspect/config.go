package inspect

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter"
)

var fields = []string{"rate", "interval", "type", "keepAliveTime"}

const maxPermits = 1 << 53

// decode reads the fields, nil if there are none, and returns the problems.
func decode(texts []*string) (r rratelimiter.Rate, wrong []string) {
	var numbers [4]int64
	for i, field := range fields {
		if texts[i] == nil {
			if field != "keepAliveTime" { // releases before 3.38 do not write it
				wrong = append(wrong, fmt.Sprintf("the field %q is missing", field))
			}
			continue
		}
		text := *texts[i]
		n, ok := parseCount(text)
		switch field {
		case "rate":
			ok = ok && n > 0 && n <= maxPermits
		case "type":
			ok = text == "0" || text == "1"
		case "keepAliveTime":
			ok = ok && len(text) < 16 && (text == "0" || text[0] != '0')
		}
		if !ok {
			wrong = append(wrong, fmt.Sprintf("the field %q is %q", field, short(text)))
		}
		numbers[i] = n
	}
	return rratelimiter.Rate{
		Type: rratelimiter.RateType(numbers[2]), Permits: numbers[0],
		Interval: Millis(numbers[1]), KeepAlive: Millis(numbers[3]),
	}, wrong
}

func parseCount(text string) (int64, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// Millis returns a number of milliseconds as a Duration, at most the longest one.
func Millis(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(max(n, -most), most)) * time.Millisecond
}

func short(text string) string {
	const most = 40
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}
