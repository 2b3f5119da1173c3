package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/internal/policy"
)

// Policy is the state of one policy of package limit. Redis does not hold its limit.
type Policy struct {
	Name   string
	Stored names.Stored
	Key    string
	TTL    int64    // milliseconds, Forever or NoKey
	Text   string   // the stored text, or a part of it
	Wrong  []string // why the state is invalid

	policy.State
}

// policies reads the state of policies. It sets Wrong if a key has other content.
func (r *Reader) policies(ctx context.Context, all []*Policy) error {
	for _, p := range all {
		p.Key = p.Stored.KeyOf(p.Name)
	}
	all, err := r.small(ctx, all)
	if err != nil {
		return err
	}
	b := r.Redis.B
	var commands rueidis.Commands
	for _, p := range all {
		content := b().Getrange().Key(p.Key).Start(0).End(p.Stored.Longest - 1).Build()
		switch p.Stored.Type {
		case "list":
			content = r.entriesOf(p, 0, page-1)
		case "zset":
			content = r.scoresOf(p, 0, heads+page-1)
		}
		commands = append(commands, b().Pttl().Key(p.Key).Build(), content)
	}
	results, err := r.ask(ctx, commands)
	if err != nil {
		return err
	}
	for i, p := range all {
		if err := r.policy(ctx, p, number(results[2*i]), results[2*i+1]); err != nil {
			return err
		}
	}
	return nil
}

// heads is the number of members before the entries of a sorted set.
const heads = 2

// policy reads the state of a policy from its TTL and its text, or the first page of its entries.
func (r *Reader) policy(ctx context.Context, p *Policy, ttl int64, content rueidis.RedisResult) error {
	p.TTL = ttl
	if ttl == NoKey {
		return nil
	}
	if wrongType(content.Error()) {
		p.Wrong = []string{fmt.Sprintf("%q is of another type, want a %s", p.Key, p.Stored.Type)}
		return nil
	}
	c := policy.Content{TTL: ttl, Now: r.Now()}
	var failed error
	var seen string // the last entry that the policy has read
	if p.Stored.Type == "string" {
		p.Text, _ = content.ToString() // ask has handled errors
	} else {
		first, _ := content.AsStrSlice()
		next := int64(page)
		if p.Stored.Type == "zset" {
			scores, _ := content.AsZScores()
			first, next = nil, heads+page
			for i, z := range scores {
				if text := scored(z); i < heads {
					p.Text += text + " "
				} else {
					first = append(first, text)
				}
			}
		}
		newest := slices.Clone(first[max(0, len(first)-1):])
		if len(first) == page {
			// It is read after the first page, so that no entry of that page is newer.
			var err error
			if newest, err = r.readEntries(ctx, p, -1, -1); err != nil {
				return err
			}
		}
		p.Text += strings.Join(newest, "")
		c.Entries = func(yield func(string) bool) {
			failed = r.entries(ctx, p, next, first, func(entry string) bool {
				seen = entry
				return yield(entry)
			})
		}
	}
	c.Text = p.Text
	state, ok := policy.Read(p.Stored.Policy, c)
	if failed != nil {
		return failed
	}
	if p.State = state; !ok {
		p.Text = cmp.Or(seen, p.Text)
		p.Wrong = []string{fmt.Sprintf("%q holds %q, which package limit does not write", p.Key, shortText(p.Text))}
	}
	return nil
}

// entriesOf returns the command that reads a part of a policy's list.
func (r *Reader) entriesOf(p *Policy, start, stop int64) rueidis.Completed {
	return r.Redis.B().Lrange().Key(p.Key).Start(start).Stop(stop).Build()
}

// scoresOf is entriesOf for a sorted set.
func (r *Reader) scoresOf(p *Policy, start, stop int64) rueidis.Completed {
	return r.Redis.B().Zrange().Key(p.Key).Min(strconv.FormatInt(start, 10)).Max(strconv.FormatInt(stop, 10)).
		Withscores().Build()
}

// scored returns a member with its score.
func scored(z rueidis.ZScore) string { return fmt.Sprintf("%s %.0f", z.Member, z.Score) }

// readEntries reads a part of a policy's list, or of its sorted set with the scores.
func (r *Reader) readEntries(ctx context.Context, p *Policy, start, stop int64) (entries []string, err error) {
	if p.Stored.Type == "zset" {
		var scores []rueidis.ZScore
		scores, err = r.Redis.Do(ctx, r.scoresOf(p, start, stop)).AsZScores()
		for _, z := range scores {
			entries = append(entries, scored(z))
		}
	} else {
		entries, err = r.Redis.Do(ctx, r.entriesOf(p, start, stop)).AsStrSlice()
	}
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, r.Redis.Explain(err)
	}
	return entries, nil
}

// entries reads the entries after the first page, a page at a time, until see returns false.
func (r *Reader) entries(ctx context.Context, p *Policy, next int64, first []string, see func(string) bool) error {
	for entries := first; ; next += page {
		for _, entry := range entries {
			if !see(entry) {
				return nil
			}
		}
		if len(entries) < page {
			return nil
		}
		var err error
		if entries, err = r.readEntries(ctx, p, next, next+page-1); err != nil {
			return err
		}
	}
}

// valueRead is the number of bytes to read of a value: more than a number has, but bounded.
const valueRead = 64

func (r *Reader) value(key string) rueidis.Completed {
	return r.Redis.B().Getrange().Key(key).Start(0).End(valueRead - 1).Build()
}

// valueOf parses the reply to Reader.value, nil if there is no such key or it has another type.
func valueOf(result rueidis.RedisResult, exists bool) (value *string, other bool) {
	text, err := result.ToString()
	if err != nil || text == "" && !exists {
		return nil, wrongType(err)
	}
	return &text, false
}

// small returns the policies whose entries are not longer than those of package limit. Reading those of
// another program could take long.
func (r *Reader) small(ctx context.Context, all []*Policy) ([]*Policy, error) {
	const longest = 4 << 10 // bytes of an entry on average, overhead included; entries have about 60
	var commands rueidis.Commands
	for _, p := range all {
		if p.Stored.Type != "string" {
			length := r.Redis.B().Llen().Key(p.Key).Build()
			if p.Stored.Type == "zset" {
				length = r.Redis.B().Zcard().Key(p.Key).Build()
			}
			commands = append(commands, r.Redis.B().Pttl().Key(p.Key).Build(), length,
				r.Redis.B().MemoryUsage().Key(p.Key).Build())
		}
	}
	replies, err := r.ask(ctx, commands)
	if err != nil {
		return nil, err
	}
	var fit []*Policy
	for _, p := range all {
		if p.Stored.Type == "string" {
			fit = append(fit, p) // a part of it is read
			continue
		}
		p.TTL = number(replies[0])
		held, bytes := number(replies[1]), number(replies[2])-2*int64(len(p.Key)) // without the name
		replies = replies[3:]
		if held > 0 && bytes/held > longest {
			p.Wrong = []string{fmt.Sprintf("%q holds %d bytes in %d parts, which package limit does not write", p.Key, bytes,
				held)}
			continue
		}
		fit = append(fit, p)
	}
	return fit, nil
}
