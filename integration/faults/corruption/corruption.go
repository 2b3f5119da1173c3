// Package corruption corrupts the keys of a limiter in every way that a foreign program, an
// eviction or an operator's mistake could. It checks what the limiter reports.
package corruption

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// keys are the five keys of a limiter, by the protocol: configuration, value, the client's value,
// permits, the client's permits.
func keys(name, id string) [5]string {
	prefix := "{" + name + "}:"
	return [5]string{name, prefix + "value", prefix + "value:" + id, prefix + "permits", prefix + "permits:" + id}
}

// texts stand where a number should: some are numbers, though not all of them ones that a limiter
// could mean.
var texts = []string{
	"", "0", "-0", "00", "1", "2", "5", "10", "-1", "-5", "-1000", "007", "-007", "00060000", "+5", " 5", "5 ", "5\n",
	"5\x00", "1e3", "1.5", "-1.5", "1e+17",
	"nan", "-nan", "inf", "-inf", "0x10", "true", "abc", "\x00", "\xff\xfe", "9007199254740991", "9007199254740992",
	"9007199254740993",
	"-9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "99999999999999999999999",
	"-99999999999999999999999",
	"999999999999999", "1000000000000000", "60000", strings.Repeat("9", 400), "-" + strings.Repeat("9",
		400), "ERR", "-ERR wrong",
}

// scores of members, of which the number moment is now.
func scores(moment int64) []string {
	now := strconv.FormatInt(moment, 10)
	return []string{
		"-inf", "+inf", "0", "-0", "-1", now, now + ".5", strconv.FormatInt(moment-1,
			10), strconv.FormatInt(moment-30_000, 10),
		strconv.FormatInt(moment-60_000, 10), strconv.FormatInt(moment-60_001, 10), strconv.FormatInt(moment+30_000,
			10),
		strconv.FormatInt(moment+1e12, 10), "1e300", "-1e300", "1e-300", "9007199254740993", "-9223372036854775808",
	}
}

// member makes a member of a permits set: a proper one, one cut short, or any bytes.
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

// spoil gives the commands of one corruption of a limiter, at a moment in Unix milliseconds.
func spoil(random *rand.Rand, all [5]string, moment int64) [][]string {
	at := random.IntN(len(all))
	key, text := all[at], texts[random.IntN(len(texts))]
	del := []string{"DEL", key}
	// Every other time the key keeps its type and is wrong inside.
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
				all := scores(moment)
				commands = append(commands, []string{"ZADD", key, all[random.IntN(len(all))], member(random)})
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
		// Longer than the calls that follow take: what expires between two of them is a second
		// corruption.
		return [][]string{{"PEXPIRE", key, fmt.Sprint(60_000 + random.IntN(1e9))}}
	default:
		return [][]string{{"PERSIST", key}}
	}
}
