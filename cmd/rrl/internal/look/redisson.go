package look

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
)

// Redisson is a limiter whose rate is in Redis.
type Redisson struct {
	Name   string
	Config Config
	TTL    int64    // milliseconds, Forever or NoKey
	Wrong  []string // of the configuration
	Bytes  int64    // in memory, 0 where that was not asked or the server does not tell
	Pairs  []*Pair  // the one of all clients together, or those of the clients that are known
	raw    []*string
}

// Raw is the fields of the configuration as they stand there, "" for one that is missing.
func (l *Redisson) Raw() []string {
	all := make([]string, len(fields))
	for i, text := range l.raw {
		if text != nil {
			all[i] = *text
		}
	}
	return all
}

// Valid says whether there is a configuration, and it can be read.
func (l *Redisson) Valid() bool { return l.TTL != NoKey && len(l.Wrong) == 0 }

// hashes reads the configurations of names: nil where there is no hash, or one that is no limiter's. A hash whose fields cannot be
// read, or which has others besides, counts as one where there is state for it.
func (r *Reader) hashes(ctx context.Context, keys []string, named bool) ([]*Redisson, error) {
	b := r.Redis.B
	var commands rueidis.Commands
	for _, key := range keys {
		commands = append(commands, b().Hmget().Key(key).Field(fields...).Build(), b().Hlen().Key(key).Build(), b().Pttl().Key(key).Build())
	}
	results, err := r.ask(ctx, commands)
	if err != nil {
		return nil, err
	}
	all := make([]*Redisson, len(keys))
	var doubtful []int
	for i, key := range keys {
		told := results[3*i:]
		l := &Redisson{Name: key, TTL: number(told[2])}
		texts, err := told[0].ToArray()
		if err != nil {
			if named && l.TTL != NoKey {
				l.Wrong = []string{fmt.Sprintf("%q is of another type, want a hash", key)}
				all[i] = l
			}
			continue
		}
		had := int64(0)
		for _, message := range texts {
			s, err := message.ToString()
			if err != nil {
				l.raw = append(l.raw, nil)
				continue
			}
			l.raw, had = append(l.raw, &s), had+1
		}
		if l.Config, l.Wrong = decode(l.raw); had == 0 && !named || l.TTL == NoKey {
			continue
		}
		all[i] = l
		if !named && (len(l.Wrong) > 0 || number(told[1]) != had) {
			doubtful = append(doubtful, i)
		}
	}
	return all, r.settle(ctx, all, doubtful)
}

// settle takes those out that are no limiters: the doubtful without state.
func (r *Reader) settle(ctx context.Context, all []*Redisson, doubtful []int) error {
	var commands rueidis.Commands
	for _, i := range doubtful {
		value, permits := names.Pair(all[i].Name, "")
		commands = append(commands, r.Redis.B().Type().Key(value).Build(), r.Redis.B().Type().Key(permits).Build())
	}
	results, err := r.ask(ctx, commands)
	if err != nil {
		return err
	}
	for n, i := range doubtful {
		value, _ := results[2*n].ToString()
		permits, _ := results[2*n+1].ToString()
		if value != "string" && permits != "zset" {
			all[i] = nil
		}
	}
	return nil
}

// read fills in the pairs of limiters, by the clients that are known of them.
func (r *Reader) read(ctx context.Context, limiters []*Redisson, clients map[string]map[string]bool, pages int) error {
	var wants []want
	var of []*Redisson
	for _, l := range limiters {
		if !l.Valid() {
			continue
		}
		ids := []string{""}
		if l.Config.Type == rratelimiter.PerClient {
			ids = slices.Sorted(maps.Keys(clients[l.Name]))
		}
		for _, id := range ids {
			wants, of = append(wants, want{l.Name, id, l.Config, pages}), append(of, l)
		}
	}
	for len(wants) > 0 {
		n := min(len(wants), pipeline/commandsOfPair)
		pairs, err := r.pairs(ctx, wants[:n])
		if err != nil {
			return err
		}
		for i, p := range pairs {
			of[i].Pairs = append(of[i].Pairs, p)
		}
		wants, of = wants[n:], of[n:]
	}
	return nil
}

// Memory asks for the memory of all keys of a limiter that are known.
func (r *Reader) Memory(ctx context.Context, keys []string) (int64, error) {
	var commands rueidis.Commands
	for _, key := range keys {
		commands = append(commands, r.Redis.B().MemoryUsage().Key(key).Build())
	}
	results, err := r.ask(ctx, commands)
	var sum int64
	for _, result := range results {
		sum += number(result)
	}
	return sum, err
}
