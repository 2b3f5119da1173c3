package inspect

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/internal/inside"
)

// Redisson is a limiter whose rate is in Redis.
type Redisson struct {
	Name   string
	Config rratelimiter.Rate
	TTL    int64    // milliseconds, Forever or NoKey
	Wrong  []string // of the configuration
	Pairs  []*Pair  // the common pair, or those of the known clients

	raw     []*string
	clients map[string]bool // the IDs of the known ones
}

// OtherType reports whether the key of the configuration has another type.
func (l *Redisson) OtherType() bool { return l.TTL != NoKey && l.raw == nil }

// Valid reports whether there is a valid configuration.
func (l *Redisson) Valid() bool { return l.TTL != NoKey && len(l.Wrong) == 0 }

// mayCount reports whether the limiter may use the common pair, for "", or the pair of a client. An
// invalid limiter may use both.
func (l *Redisson) mayCount(client string) bool {
	return !l.Valid() || (l.Config.Type == rratelimiter.PerClient) == (client != "")
}

// hashes reads the configurations of names, nil if there is no hash or it is not a limiter. A hash with
// invalid or additional fields counts as a limiter if it has state, or if the user named it.
func (r *Reader) hashes(ctx context.Context, keys []string, named bool) ([]*Redisson, error) {
	b := r.Redis.B
	var commands rueidis.Commands
	for _, key := range keys {
		commands = append(commands, b().Hmget().Key(key).Field(inside.RateFields...).Build())
	}
	replies, err := r.ask(ctx, commands)
	if err != nil {
		return nil, err
	}
	// Most hashes have none of the fields and are skipped.
	all, had := make([]*Redisson, len(keys)), make([]int64, len(keys))
	commands = nil
	for i, key := range keys {
		l := &Redisson{Name: key}
		l.raw, had[i] = optionalTexts(replies[i])
		if l.raw == nil {
			l.Wrong = []string{fmt.Sprintf("%q is of another type, want a hash", key)}
		} else {
			l.Config, l.Wrong = decode(l.raw)
		}
		if named || had[i] > 0 {
			all[i] = l
			value, permits := names.Pair(key, "")
			commands = append(commands, b().Pttl().Key(key).Build(), b().Hlen().Key(key).Build(),
				b().Type().Key(value).Build(), b().Type().Key(permits).Build())
		}
	}
	if replies, err = r.ask(ctx, commands); err != nil {
		return nil, err
	}
	for i, l := range all {
		if l == nil {
			continue
		}
		l.TTL = number(replies[0])
		odd := len(l.Wrong) > 0 || number(replies[1]) != had[i]
		value, _ := replies[2].ToString()
		permits, _ := replies[3].ToString()
		if l.TTL == NoKey || odd && !named && value != "string" && permits != "zset" {
			all[i] = nil
		}
		replies = replies[4:]
	}
	return all, nil
}

// optionalTexts reads a list of texts, nil for a missing one, and counts the others. It returns nil if
// the key has another type.
func optionalTexts(result rueidis.RedisResult) (texts []*string, had int64) {
	messages, err := result.ToArray()
	if err != nil {
		return nil, 0
	}
	for _, message := range messages {
		s, err := message.ToString()
		if err != nil {
			texts = append(texts, nil)
			continue
		}
		texts, had = append(texts, &s), had+1
	}
	return texts, had
}

// read reads the pairs of limiters, by their known clients.
func (r *Reader) read(ctx context.Context, limiters []*Redisson, pages int) error {
	var wants []want
	for _, l := range limiters {
		if !l.Valid() {
			continue
		}
		ids := []string{""}
		if l.Config.Type == rratelimiter.PerClient {
			ids = slices.Sorted(maps.Keys(l.clients))
		}
		for _, id := range ids {
			wants = append(wants, want{l, id})
		}
	}
	for part := range slices.Chunk(wants, pipeline/commandsOfPair) {
		if err := r.pairs(ctx, part, pages); err != nil {
			return err
		}
	}
	return nil
}

// decode reads the fields, nil if there are none, and returns the problems.
func decode(texts []*string) (r rratelimiter.Rate, wrong []string) {
	var numbers [4]int64
	for i, field := range inside.RateFields {
		if texts[i] == nil {
			if field != "keepAliveTime" { // releases before 3.38 do not write it
				wrong = append(wrong, fmt.Sprintf("the field %q is missing", field))
			}
			continue
		}
		text := *texts[i]
		n, ok := inside.ReadRateField(i, text)
		if !ok || field == "rate" && n == 0 { // which a script accepts, and TrySetRate does not
			wrong = append(wrong, fmt.Sprintf("the field %q is %q", field, shortText(text)))
		}
		numbers[i] = n
	}
	return rratelimiter.Rate{
		Type: rratelimiter.RateType(numbers[2]), Permits: numbers[0],
		Interval: names.Millis(numbers[1]), KeepAlive: names.Millis(numbers[3]),
	}, wrong
}

func shortText(text string) string {
	const most = 40
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}
