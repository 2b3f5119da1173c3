package look

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
)

// Policy is the state of one policy of package limit. Its permits are known to the programs that use it alone, so what is free is told
// only where somebody says them.
type Policy struct {
	Name   string
	Stored names.Stored
	Key    string
	TTL    int64    // milliseconds, Forever or NoKey
	Taken  int64    // permits; of smooth, none
	Busy   int64    // of smooth: milliseconds until the next request is granted
	Ends   int64    // milliseconds until nothing is taken
	Text   string   // what is stored, or the part that tells most
	About  bool     // Taken was reckoned from the expiry of the key, for what the policy's refill is not known
	Wrong  []string // why it is no policy's state

	Returns []Return
}

// policies reads the state of policies. Those whose keys hold something else have Wrong set.
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
		case "hash":
			commands = append(commands, b().Hgetall().Key(p.Key).Build())
		case "list":
			commands = append(commands, b().Lrange().Key(p.Key).Start(0).Stop(page).Build())
		default:
			commands = append(commands, b().Getrange().Key(p.Key).Start(0).End(255).Build())
		}
	}
	results, err := r.ask(ctx, commands)
	if err != nil {
		return err
	}
	for i, p := range all {
		p.TTL = number(results[2*i])
		told := results[2*i+1]
		if p.TTL == NoKey {
			continue
		}
		if wrongType(told.Error()) {
			p.Wrong = []string{fmt.Sprintf("%q is of another type, want a %s", p.Key, p.Stored.Type())}
			continue
		}
		now := r.Now()
		var ok bool
		switch p.Stored.Kind {
		case "sliding":
			ok = p.sliding(told, now.UnixMilli())
		case "log":
			ok, err = r.log(ctx, p, told, now.UnixMilli())
			if err != nil {
				return err
			}
		default:
			p.Text, _ = told.ToString()
			ok = p.string(now)
		}
		if !ok {
			p.Wrong = []string{fmt.Sprintf("%q holds %q, which package limit does not write", p.Key, short(p.Text))}
		}
	}
	return nil
}

// string reads the policies that keep a text.
func (p *Policy) string(now time.Time) bool {
	switch p.Stored.Kind {
	case "window", "aligned":
		return p.window(now.UnixMilli())
	case "bucket", "leaky":
		return p.bucket(now.UnixMicro())
	case "smooth", "warmup":
		return p.smooth(now.UnixMicro())
	}
	return p.calendar(now.UnixMilli())
}

// numbers reads words that are all whole numbers from 0 on.
func numbers(words []string) ([]int64, bool) {
	all := make([]int64, len(words))
	for i, word := range words {
		var ok bool
		if all[i], ok = count(word); !ok {
			return nil, false
		}
	}
	return all, true
}

// packed reads "<number><three digits>", which Redis keeps as one whole number, or gives the words of the text.
func packed(text string) ([]int64, bool) {
	if len(text) > 3 && !strings.Contains(text, " ") {
		cut := len(text) - 3
		return numbers([]string{text[:cut], text[cut:]})
	}
	return numbers(strings.Split(text, " "))
}

// until sets what comes back at a moment, all at once.
func (p *Policy) until(taken, after int64) {
	if after <= 0 || taken == 0 {
		return
	}
	p.Taken, p.Ends, p.Returns = taken, after, []Return{{after, taken}}
}

// window reads "<begin, ms><count>".
func (p *Policy) window(now int64) bool {
	n, ok := packed(p.Text)
	if !ok || len(n) != 2 {
		return false
	}
	p.until(n[1], n[0]+p.Stored.Interval.Milliseconds()-now)
	return true
}

// calendar reads "<begin, ms> <end, ms> <count>", begin being below 0 before 1970.
func (p *Policy) calendar(now int64) bool {
	n, ok := numbers(strings.Split(strings.TrimPrefix(p.Text, "-"), " "))
	if !ok || len(n) != 3 {
		return false
	}
	p.until(n[2], n[1]-now)
	return true
}

// bucket reads "<at, us> <taken> <part>", and what reservations have behind it. The key expires when the bucket would be full, which
// tells how fast that goes.
func (p *Policy) bucket(now int64) bool {
	n, ok := packed(p.Text)
	if !ok || len(n) < 2 || len(n) == 4 || len(n) > 5 {
		return false
	}
	missing := float64(n[1])
	if len(n) > 2 {
		missing += float64(n[2]) / float64(p.Stored.Interval.Microseconds())
	}
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

// smooth reads "<stored permits> <at, us> <wait, us>", and what reservations have behind it.
func (p *Policy) smooth(now int64) bool {
	words := strings.Split(p.Text, " ")
	if len(words) != 3 && len(words) != 5 {
		return false
	}
	if _, err := strconv.ParseFloat(words[0], 64); err != nil {
		return false
	}
	n, ok := numbers(words[1:])
	if !ok {
		return false
	}
	p.Busy, p.Ends = max(0, n[0]+n[1]-now)/1000, max(0, p.TTL)
	return true
}

// sliding reads a hash: m is "<sum> <oldest> <newest> <count>", and the cells stand under their number modulo cells + 1.
func (p *Policy) sliding(told rueidis.RedisResult, now int64) bool {
	held, err := told.AsStrMap()
	p.Text = held["m"]
	n, ok := numbers(strings.Split(p.Text, " "))
	cells, length := p.Stored.Cells, p.Stored.Interval.Milliseconds()/max(1, p.Stored.Cells)
	if err != nil || !ok || len(n) != 4 || n[2] < n[1] || n[2]-n[1] > cells || length == 0 {
		return false
	}
	oldest, newest := n[1], n[2]
	first := max(now/length, newest) - cells // the first that overlaps the interval
	for cell := max(oldest, first); cell <= newest; cell++ {
		permits := n[3]
		if cell < newest {
			text := held[strconv.FormatInt(cell%(cells+1), 10)]
			if text == "" {
				continue
			}
			if permits, ok = count(text); !ok {
				return false
			}
		}
		p.Taken += permits
		p.Ends = (cell+cells+1)*length - now
		p.Returns = append(p.Returns, Return{p.Ends, permits})
	}
	return true
}

// log reads a list whose head is "<sum> <time, ms> <count> <ahead, ms>": all permits, the newest entry, and how far on the clock was seen.
// Behind it stand the others, "<time> <count>", the oldest first.
func (r *Reader) log(ctx context.Context, p *Policy, told rueidis.RedisResult, now int64) (bool, error) {
	texts, _ := told.AsStrSlice() // ask has seen to the errors
	if len(texts) == 0 {
		return false, nil
	}
	p.Text = texts[0]
	head, ok := numbers(strings.Split(p.Text, " "))
	if !ok || len(head) != 4 {
		return false, nil
	}
	interval := p.Stored.Interval.Milliseconds()
	limit := max(now, head[1]+head[3]) - interval
	if head[1] <= limit {
		return true, nil
	}
	p.Taken = head[0]
	for entries, start := texts[1:], int64(1); len(entries) > 0; {
		for _, text := range entries {
			p.Text = text
			n, ok := numbers(strings.Split(text, " "))
			if !ok || len(n) != 2 {
				return false, nil
			}
			if n[0] <= limit {
				p.Taken -= n[1]
			} else if len(p.Returns) < page {
				p.Returns = append(p.Returns, Return{n[0] + interval - now, n[1]})
			}
			if n[0] > limit && len(p.Returns) == page {
				entries = nil // the rest has not left either
				break
			}
		}
		if len(entries) < page {
			break
		}
		start += page
		more, err := r.Redis.Do(ctx, r.Redis.B().Lrange().Key(p.Key).Start(start).Stop(start+page-1).Build()).AsStrSlice()
		if err != nil && !rueidis.IsRedisNil(err) {
			return false, r.Redis.Explain(err)
		}
		entries = more
	}
	p.Text = texts[0]
	p.Taken, p.Ends = max(p.Taken, head[2]), head[1]+interval-now
	p.Returns = append(p.Returns, Return{p.Ends, head[2]})
	return true, nil
}
