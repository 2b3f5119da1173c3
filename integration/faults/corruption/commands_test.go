package corruption

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

// texts replace numbers. Some are numbers, but not all of these are valid for a limiter.
var texts = []string{
	"", "0", "-0", "00", "1", "2", "5", "10", "-1", "-5", "-1000", "007", "-007", "00060000", "+5", " 5", "5 ", "5\n",
	"5\x00", "1e3", "1.5", "-1.5", "1e+17", "nan", "-nan", "inf", "-inf", "0x10", "true", "abc", "\x00", "\xff\xfe",
	"9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740993", "9223372036854775807",
	"9223372036854775808", "-9223372036854775808", "99999999999999999999999", "-99999999999999999999999",
	"999999999999999", "1000000000000000", "60000", strings.Repeat("9", 400), "-" + strings.Repeat("9", 400), "ERR",
	"-ERR wrong",
}

// score returns a score of a member, often around a time in Unix milliseconds.
func score(random *rand.Rand, moment int64) string {
	others := []string{"-inf", "+inf", "0", "-0", "-1", "1e300", "-1e300", "1e-300", "9007199254740993",
		"-9223372036854775808"}
	if random.IntN(2) == 0 {
		return others[random.IntN(len(others))]
	}
	offsets := []float64{0, 0.5, -1, -30_000, -60_000, -60_001, 30_000, 1e12}
	return strconv.FormatFloat(float64(moment)+offsets[random.IntN(len(offsets))], 'f', -1, 64)
}

// member returns a member of a permits set: valid, cut, or any bytes.
func member(random *rand.Rand) string {
	bytes := make([]byte, 1+16+4)
	for i := range bytes {
		bytes[i] = byte(random.Uint32())
	}
	switch random.IntN(4) {
	case 0:
		return string(bytes[:random.IntN(len(bytes)+1)])
	case 1:
		return string(bytes)
	}
	bytes[0] = 16
	copy(bytes[17:], []byte{byte(random.IntN(12)), 0, 0, 0})
	return string(bytes)
}

// corrupt returns the commands of one corruption of a limiter, at a time in Unix milliseconds.
func corrupt(random *rand.Rand, all state.Keys, moment int64) [][]string {
	at := random.IntN(len(all))
	key, text := all[at], texts[random.IntN(len(texts))]
	del := []string{"DEL", key}
	// In half of the cases the key keeps its type and has a wrong content.
	if random.IntN(2) == 0 {
		switch at {
		case 0:
			field := []string{"rate", "interval", "type", "keepAliveTime"}[random.IntN(4)]
			if random.IntN(4) == 0 {
				return [][]string{{"HDEL", key, field}}
			}
			return [][]string{{"HSET", key, field, text}}
		case 1, 2:
			return [][]string{{"SET", key, text, "KEEPTTL"}}
		default:
			var commands [][]string
			for range 1 + random.IntN(4) {
				commands = append(commands, []string{"ZADD", key, score(random, moment), member(random)})
			}
			return commands
		}
	}
	switch random.IntN(9) {
	case 0, 1:
		return [][]string{del}
	case 2:
		return [][]string{del, {"SET", key, text}}
	case 3:
		return [][]string{del, {"HSET", key, "rate", text}}
	case 4:
		return [][]string{del, {"LPUSH", key, text}}
	case 5:
		return [][]string{del, {"SADD", key, text}}
	case 6:
		return [][]string{del, {"ZADD", key, "1", member(random)}}
	case 7:
		// Longer than the calls that follow take: an expiry between two of them would be a second
		// corruption.
		return [][]string{{"PEXPIRE", key, fmt.Sprint(60_000 + random.IntN(1e9))}}
	default:
		return [][]string{{"PERSIST", key}}
	}
}
