package inspect

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
)

// Policy is the state of one policy of package limit. Redis does not hold its limit.
type Policy struct {
	Name   string
	Stored names.Stored
	Key    string
	TTL    int64    // milliseconds, Forever or NoKey
	Taken  int64    // permits; 0 for smooth
	Busy   int64    // of smooth: milliseconds until the next request is granted
	Ends   int64    // milliseconds until nothing is taken
	Text   string   // the stored text, or a part of it
	About  bool     // Taken was computed from the expiry of the key, since the refill is unknown
	Wrong  []string // why the state is invalid

	Returns []Return
}

// policies reads the state of policies. It sets Wrong if a key has other content.
func (r *Reader) policies(ctx context.Context, all []*Policy) error {
	for _, p := range all {
		p.Key = p.Stored.Key(p.Name)
	}
	all, err := r.small(ctx, all)
	if err != nil {
		return err
	}
	b := r.Redis.B
	var commands rueidis.Commands
	for _, p := range all {
		commands = append(commands, b().Pttl().Key(p.Key).Build())
		switch p.Stored.Type() {
		case "list":
			commands = append(commands, b().Lrange().Key(p.Key).Start(0).Stop(page-1).Build())
		default:
			commands = append(commands, b().Getrange().Key(p.Key).Start(0).End(p.Stored.MaxText()-1).Build())
		}
	}
	results, err := r.ask(ctx, commands)
	if err != nil {
		return err
	}
	for i, p := range all {
		p.TTL = number(results[2*i])
		reply := results[2*i+1]
		if p.TTL == NoKey {
			continue
		}
		if wrongType(reply.Error()) {
			p.Wrong = []string{fmt.Sprintf("%q is of another type, want a %s", p.Key, p.Stored.Type())}
			continue
		}
		now := r.Now()
		var ok bool
		switch p.Stored.Kind {
		case "log":
			ok, err = r.log(ctx, p, reply, now.UnixMilli())
			if err != nil {
				return err
			}
		default:
			p.Text, _ = reply.ToString()
			ok = p.string(now)
		}
		if !ok {
			p.Wrong = []string{fmt.Sprintf("%q holds %q, which package limit does not write", p.Key, short(p.Text))}
		}
	}
	return nil
}

// string reads the policies with a text.
func (p *Policy) string(now time.Time) bool {
	switch p.Stored.Kind {
	case "bucket", "leaky":
		return p.bucket(now.UnixMicro())
	case "smooth", "warmup":
		return p.smooth(now.UnixMicro())
	case "sliding":
		return p.sliding(now.UnixMilli())
	}
	return p.window(now.UnixMilli())
}

// parseNumbers parses words that are whole numbers of 0 or more.
func parseNumbers(words []string) ([]int64, bool) {
	all := make([]int64, len(words))
	for i, word := range words {
		var ok bool
		if all[i], ok = parseCount(word); !ok {
			return nil, false
		}
	}
	return all, true
}

// parseWords splits a state into its epoch and numbers.
func parseWords(text string) ([]int64, bool) {
	epoch, rest, ok := strings.Cut(text, " ")
	if !ok || epoch == "" {
		return nil, false
	}
	return parseNumbers(strings.Split(rest, " "))
}

// until sets permits that all return at one time.
func (p *Policy) until(taken, after int64) {
	if after <= 0 || taken == 0 {
		return
	}
	p.Taken, p.Ends, p.Returns = taken, after, []Return{{after, taken}}
}

// window reads "<epoch> <end, ms> <count>", of a FixedWindow or a Calendar.
func (p *Policy) window(now int64) bool {
	n, ok := parseWords(p.Text)
	if !ok || len(n) != 2 {
		return false
	}
	p.until(n[1], n[0]-now)
	return true
}

// bucket reads "<epoch> <at, us> <taken> <part>" and the fields of refunds and reservations after it. The
// key expires when the bucket is full, from which the refill is computed.
func (p *Policy) bucket(now int64) bool {
	n, ok := parseWords(p.Text)
	if !ok || len(n) != 3 && len(n) != 6 && len(n) != 7 {
		return false
	}
	missing := float64(n[1]) + float64(n[2])/float64(p.Stored.Interval.Microseconds())
	p.Ends, p.About = max(0, p.TTL), true
	left, passed := float64(max(0, p.TTL))*1000, float64(max(0, now-n[0]))
	if p.TTL == Forever {
		left, passed = 1, 0
	}
	if left+passed > 0 {
		p.Taken = int64(missing*left/(left+passed) + 0.5)
	}
	return true
}

// smooth reads "<epoch> <stored permits> <at, us> <wait, us>", and the fields of reservations after it.
func (p *Policy) smooth(now int64) bool {
	all := strings.Split(p.Text, " ")
	if len(all) != 4 && len(all) != 5 {
		return false
	}
	if _, err := strconv.ParseFloat(all[1], 64); err != nil {
		return false
	}
	n, ok := parseNumbers(all[2:])
	if !ok {
		return false
	}
	p.Busy, p.Ends = max(0, n[0]+n[1]-now)/1000, max(0, p.TTL)
	return true
}

// sliding reads "<epoch> <sum> <newest> <count>" and " <cell>:<permits>" of each older cell, the oldest
// first.
func (p *Policy) sliding(now int64) bool {
	all := strings.Split(p.Text, " ")
	cells, length := p.Stored.Cells, p.Stored.Interval.Milliseconds()/max(1, p.Stored.Cells)
	if len(all) < 4 || length == 0 {
		return false
	}
	n, ok := parseNumbers(all[1:4])
	if !ok {
		return false
	}
	newest := n[1]
	first := max(now/length, newest) - cells // the first that overlaps the interval
	for _, text := range append(all[4:], fmt.Sprintf("%d:%d", newest, n[2])) {
		cell, permits, _ := strings.Cut(text, ":")
		n, ok := parseNumbers([]string{cell, permits})
		if !ok || n[0] > newest {
			return false
		}
		if n[0] < first || n[1] == 0 {
			continue
		}
		p.Taken += n[1]
		p.Ends = (n[0]+cells+1)*length - now
		p.Returns = append(p.Returns, Return{p.Ends, n[1]})
	}
	return true
}

// log reads a list of entries "<epoch> <time, ms> <ahead, ms> <count> <total>", the oldest first. Entries
// within the interval count, by the latest time that the last entry has seen.
func (r *Reader) log(ctx context.Context, p *Policy, reply rueidis.RedisResult, now int64) (bool, error) {
	texts, _ := reply.AsStrSlice() // ask has handled errors
	newest, err := r.Redis.Do(ctx, r.Redis.B().Lindex().Key(p.Key).Index(-1).Build()).ToString()
	if rueidis.IsRedisNil(err) || len(texts) == 0 {
		return false, nil
	}
	if err != nil {
		return false, r.Redis.Explain(err)
	}
	p.Text = newest
	last, ok := parseWords(newest)
	if !ok || len(last) != 4 {
		return false, nil
	}
	interval := p.Stored.Interval.Milliseconds()
	limit := max(now, last[0]+last[1]) - interval
	if last[0] <= limit {
		return true, nil
	}
	oldest := true
	for start := int64(0); len(texts) > 0 && len(p.Returns) < page; {
		for _, text := range texts {
			n, ok := parseWords(text)
			if !ok || len(n) != 4 {
				p.Text = text
				return false, nil
			}
			if n[0] <= limit || n[2] == 0 {
				continue
			}
			if oldest { // the taken permits are a difference of totals, which wrap at 2^53
				p.Taken, oldest = n[2]+(last[3]-n[3]+1<<53)%(1<<53), false
			}
			if len(p.Returns) < page {
				p.Returns = append(p.Returns, Return{n[0] + interval - now, n[2]})
			}
		}
		if len(texts) < page {
			break
		}
		start += int64(len(texts))
		if texts, err = r.Redis.Do(ctx,
			r.Redis.B().Lrange().Key(p.Key).Start(start).Stop(start+page-1).Build()).AsStrSlice(); err != nil {
			return false, r.Redis.Explain(err)
		}
	}
	p.Ends = last[0] + interval - now
	return true, nil
}
