package inside

import (
	"errors"
	"strconv"
	"strings"
)

// RateFields are the names of the fields of the configuration hash of a limiter in Redisson's layout, in the order of
// the scripts. Releases before 3.38 do not write the last one.
var RateFields = []string{"rate", "interval", "type", "keepAliveTime"}

// ReadRateField returns the number of the field at an index of RateFields. It returns false for a text that the scripts
// refuse. A number above the largest int64 becomes that.
func ReadRateField(field int, text string) (number int64, ok bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	const most = 1 << 53
	number, err := strconv.ParseInt(text, 10, 64)
	ok = err == nil || errors.Is(err, strconv.ErrRange)
	switch RateFields[field] {
	case "rate":
		ok = ok && (number < most || text == strconv.Itoa(most))
	case "type":
		ok = text == "0" || text == "1"
	case "keepAliveTime":
		ok = ok && len(text) < 16 && (text == "0" || text[0] != '0')
	}
	return number, ok
}
