// Package watch looks at limiters again and again, and shows how much of their rates is used.
package watch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/look"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
)

// Sample is one limiter at one moment.
type Sample struct {
	Time    time.Time  `json:"time"`
	Name    names.Name `json:"name"`
	Kind    string     `json:"kind"`
	Limit   int64      `json:"limit,omitempty"`   // 0 where it is not known
	Taken   int64      `json:"taken"`             // of a PER_CLIENT limiter, by the client that has the most
	Granted *int64     `json:"granted,omitempty"` // since the sample before, where Redis tells
	BusyMS  int64      `json:"busy_ms,omitempty"` // of smooth
	Clients []Client   `json:"clients,omitempty"`
	Wrong   string     `json:"wrong,omitempty"`

	id string // of the series that it belongs to
}

// Client is what one client of a PER_CLIENT limiter has taken.
type Client struct {
	ID    string `json:"id"`
	Taken int64  `json:"taken"`
}

// Watcher looks at limiters by their names.
type Watcher struct {
	Reader *look.Reader
	Names  []string
	Given  []names.Given // the policies of package limit whose permits are known

	last   []Sample         // of the last look
	before map[string]int64 // by name, when it was looked at, Unix milliseconds
	known  []known
	search time.Time     // the next time at which clients and policies are searched
	took   time.Duration // by the last search
}

// known is a limiter with the clients that were found of it, or a policy.
type known struct {
	name  string
	found *look.Found
}

// mostClients bounds what one look reads.
const mostClients = 1000

// pages is how many pages of grants one look reads of a limiter, at most.
const pages = 16

// between is how much longer than a search took it is until the next one.
const between = 20

// Look takes a sample of each limiter, and one of each of its policies. Clients and policies that have come are found now and
// then.
func (w *Watcher) Look(ctx context.Context) ([]Sample, error) {
	if w.before == nil {
		w.before = make(map[string]int64)
	}
	now := w.Reader.Now()
	if !now.Before(w.search) {
		began := time.Now()
		if err := w.find(ctx); err != nil {
			return nil, err
		}
		w.took = time.Since(began)
		w.search = now.Add(max(2*time.Second, between*w.took))
	} else if err := w.again(ctx); err != nil {
		return nil, err
	}
	var all []Sample
	for _, k := range w.known {
		samples, err := w.samples(ctx, now, k)
		if err != nil {
			return nil, err
		}
		all = append(all, samples...)
	}
	w.last = all
	return all, nil
}

// Without is what to show of a look that failed: what was there before, of which nothing is known now. The next look searches anew.
func (w *Watcher) Without(err error) []Sample {
	w.search = time.Time{}
	samples := slices.Clone(w.last)
	for i := range samples {
		s := &samples[i]
		s.Time, s.Taken, s.Granted, s.BusyMS, s.Clients, s.Wrong = w.Reader.Now(), 0, nil, 0, nil, err.Error()
	}
	return samples
}

func (w *Watcher) find(ctx context.Context) error {
	var all []known
	for _, name := range w.Names {
		found, err := w.Reader.Of(ctx, name, look.Search{Most: mostClients, Pages: pages, Known: names.Known(w.Given)})
		if err != nil {
			return err
		}
		all = append(all, known{name: name, found: found})
	}
	w.known = all
	return nil
}

// again reads what is known already.
func (w *Watcher) again(ctx context.Context) error {
	for _, k := range w.known {
		if err := w.Reader.Again(ctx, k.name, k.found, pages); err != nil {
			return err
		}
	}
	return nil
}

// samples makes samples of what was read.
func (w *Watcher) samples(ctx context.Context, now time.Time, k known) ([]Sample, error) {
	since, looked := w.before[k.name]
	w.before[k.name] = now.UnixMilli()
	var all []Sample
	for _, l := range k.found.Redisson {
		s := Sample{Time: now, Name: names.Name(l.Name), Kind: l.Config.Type.String(), Limit: l.Config.Permits, id: l.Name}
		if !l.Valid() {
			s.Kind, s.Limit, s.Wrong = "corrupt", 0, "the configuration is invalid, see rrl show"
			all = append(all, s)
			continue
		}
		s.Kind += " " + l.Config.Rate(names.Duration)
		var granted int64
		for _, p := range l.Pairs {
			s.Taken = max(s.Taken, p.Taken)
			if s.Wrong == "" && len(p.Wrong) > 0 {
				s.Wrong = p.Wrong[0]
			}
			if l.Config.Type == rratelimiter.PerClient {
				s.Clients = append(s.Clients, Client{p.Client, p.Taken})
			}
			if looked && p.Newest > since {
				n, err := w.Reader.Since(ctx, p, since, pages)
				if err != nil {
					return nil, err
				}
				granted += n
			}
		}
		slices.SortFunc(s.Clients, func(a, b Client) int { return cmp.Or(-cmp.Compare(a.Taken, b.Taken), cmp.Compare(a.ID, b.ID)) })
		if looked {
			s.Granted = &granted
		}
		all = append(all, s)
	}
	for _, p := range w.policies(k) {
		s := Sample{
			Time: now, Name: names.Name(p.Name), Kind: p.Stored.String(), Taken: p.Taken, BusyMS: p.Busy,
			id: p.Name + " " + p.Stored.String(),
		}
		for _, g := range w.Given {
			if g.Stored == p.Stored {
				s.Limit = g.Most
			}
		}
		if len(p.Wrong) > 0 {
			s.Wrong = p.Wrong[0]
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		all = append(all, Sample{
			Time: now, Name: names.Name(k.name), Kind: "no limiter", Wrong: "Redis has no state of this name", id: k.name,
		})
	}
	return all, nil
}

// policies are those that were found. Those that were given may have no key while nothing is taken; beside a limiter of Redisson's they are
// another name's.
func (w *Watcher) policies(k known) []*look.Policy {
	if len(k.found.Redisson) == 0 {
		return k.found.Policies
	}
	var all []*look.Policy
	for _, p := range k.found.Policies {
		if p.TTL != look.NoKey {
			all = append(all, p)
		}
	}
	return all
}

// Plain is the sample as a line of a log.
func (s Sample) Plain() string {
	text := fmt.Sprintf("%s %s %q taken=%d",
		s.Time.UTC().Format(time.RFC3339), names.Quote(string(s.Name)), s.Kind, s.Taken)
	if s.Limit > 0 {
		text += fmt.Sprintf(" limit=%d", s.Limit)
	}
	if s.Granted != nil {
		text += fmt.Sprintf(" granted=%d", *s.Granted)
	}
	if s.BusyMS > 0 {
		text += fmt.Sprintf(" busy=%dms", s.BusyMS)
	}
	if s.Clients != nil {
		text += fmt.Sprintf(" clients=%d", len(s.Clients))
	}
	if s.Wrong != "" {
		text += fmt.Sprintf(" wrong=%q", s.Wrong)
	}
	return text
}
