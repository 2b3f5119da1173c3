// Package state reads the state of a rate limiter in Redis: the five keys of one client,
// independent of any library. Tests compare the states of two clients, and advance the time of a
// limiter without waiting.
package state

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Keys are the five keys of a limiter, in Redisson's order: configuration, value, the client's
// value, permits, the client's permits.
type Keys [5]string

// The indexes of Keys.
const (
	Config = iota
	Value
	ClientValue
	Permits
	ClientPermits
)

// KeysOf returns the keys of a limiter for a client, independent of the library under test.
func KeysOf(name, id string) Keys {
	prefix := name
	if !strings.Contains(name, "{") {
		prefix = "{" + name + "}"
	}
	return Keys{name, prefix + ":value", prefix + ":value:" + id, prefix + ":permits", prefix + ":permits:" + id}
}

// The TTLs of keys that have none, as PTTL replies them.
const (
	Forever = -1 // the key never expires
	NoKey   = -2
)

// State is the contents of the five keys. A part is zero if its key does not exist, except for
// TTLs, which are NoKey.
type State struct {
	Config    map[string]string // nil without a hash
	ConfigTTL int64             // milliseconds, Forever or NoKey
	Overall   Pair
	Client    Pair
	Read      time.Time // when it was read, on this host's clock
}

// Pair is the state that one count of permits has.
type Pair struct {
	Value     *string // nil without one
	ValueTTL  int64
	Grants    []Grant // in the order of the set: by score, then by bytes
	GrantsTTL int64
}

// Grant is one member of a permits set.
type Grant struct {
	Score   int64 // Unix milliseconds
	Member  string
	Unknown bool  // the member is not the length of the random part in a byte, that part, and the permits
	Permits int64 // the last four bytes, little-endian; -1 if there are fewer
}

// Decode decodes a member of a permits set.
func Decode(member string) Grant {
	const count = 4
	random := len(member) - 1 - count
	g := Grant{Member: member, Permits: -1, Unknown: random < 0 || int(member[0]) != random}
	if len(member) >= count {
		g.Permits = int64(binary.LittleEndian.Uint32([]byte(member[len(member)-count:])))
	}
	return g
}

// Read reads the five keys.
func Read(ctx context.Context, client rueidis.Client, k Keys) (State, error) {
	b := client.B
	replies := client.DoMulti(ctx,
		b().Hgetall().Key(k[Config]).Build(), b().Pttl().Key(k[Config]).Build(),
		b().Get().Key(k[Value]).Build(), b().Pttl().Key(k[Value]).Build(),
		b().Zrange().Key(k[Permits]).Min("0").Max("-1").Withscores().Build(), b().Pttl().Key(k[Permits]).Build(),
		b().Get().Key(k[ClientValue]).Build(), b().Pttl().Key(k[ClientValue]).Build(),
		b().Zrange().Key(k[ClientPermits]).Min("0").Max("-1").Withscores().Build(), b().Pttl().Key(k[ClientPermits]).Build(),
	)
	s := State{Read: time.Now()}
	fields, err := replies[0].AsStrMap()
	if err != nil {
		return s, fmt.Errorf("reading %q: %w", k[Config], err)
	}
	if len(fields) > 0 {
		s.Config = fields
	}
	if s.ConfigTTL, err = replies[1].AsInt64(); err != nil {
		return s, err
	}
	if s.Overall, err = readPair(replies[2:6]); err != nil {
		return s, fmt.Errorf("reading %q and %q: %w", k[Value], k[Permits], err)
	}
	if s.Client, err = readPair(replies[6:10]); err != nil {
		return s, fmt.Errorf("reading %q and %q: %w", k[ClientValue], k[ClientPermits], err)
	}
	return s, nil
}

func readPair(replies []rueidis.RedisResult) (Pair, error) {
	var p Pair
	value, err := replies[0].ToString()
	if err == nil {
		p.Value = &value
	} else if !rueidis.IsRedisNil(err) {
		return p, err
	}
	if p.ValueTTL, err = replies[1].AsInt64(); err != nil {
		return p, err
	}
	scores, err := replies[2].AsZScores()
	if err != nil {
		return p, err
	}
	for _, z := range scores {
		g := Decode(z.Member)
		g.Score = int64(z.Score)
		p.Grants = append(p.Grants, g)
	}
	p.GrantsTTL, err = replies[3].AsInt64()
	return p, err
}

// Count returns the value, and whether it is a number.
func (p Pair) Count() (int64, bool) {
	if p.Value == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(*p.Value, 10, 64)
	return n, err == nil
}

// Taken returns the permits of the grants after a time, and those of the others.
func (p Pair) Taken(after int64) (taken, left int64) {
	for _, g := range p.Grants {
		if g.Score > after {
			taken += g.Permits
		} else {
			left += g.Permits
		}
	}
	return taken, left
}

// fieldOrder is the order in which fields are printed; others follow by name.
var fieldOrder = []string{"rate", "interval", "type", "keepAliveTime"}

// grain is the unit of printed times: a test takes less, and advances the time by multiples of it.
const grain = 5 * time.Minute

// String returns the state in one line, without keys that do not exist: fields, values, and each
// grant as permits@age. Ages and times to live are rounded to 5 minutes.
func (s State) String() string {
	var parts []string
	if s.Config != nil {
		var fields []string
		for _, name := range fieldOrder {
			if text, ok := s.Config[name]; ok {
				fields = append(fields, name+"="+text)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(s.Config)) {
			if !slices.Contains(fieldOrder, name) {
				fields = append(fields, name+"="+s.Config[name])
			}
		}
		parts = append(parts, strings.Join(fields, " ")+ttlText(s.ConfigTTL))
	}
	parts = append(parts, s.Overall.parts("", s.Read)...)
	parts = append(parts, s.Client.parts("client ", s.Read)...)
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, "; ")
}

func (p Pair) parts(whose string, now time.Time) []string {
	var parts []string
	if p.Value != nil {
		parts = append(parts, whose+"value "+*p.Value+ttlText(p.ValueTTL))
	}
	if len(p.Grants) > 0 {
		text := whose + "permits"
		for _, g := range p.Grants {
			text += " " + g.String() + "@" + now.Sub(time.UnixMilli(g.Score)).Round(grain).String()
		}
		parts = append(parts, text+ttlText(p.GrantsTTL))
	}
	return parts
}

// String is the number of permits, and for a member of unknown layout its bytes.
func (g Grant) String() string {
	if g.Unknown {
		return fmt.Sprintf("%d(member %s)", g.Permits, hex.EncodeToString([]byte(g.Member)))
	}
	return strconv.FormatInt(g.Permits, 10)
}

func ttlText(ms int64) string {
	if ms < 0 {
		return ""
	}
	return " ttl " + (time.Duration(ms) * time.Millisecond).Round(grain).String()
}
