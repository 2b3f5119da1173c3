// Package watch samples limiters and shows the use of their rates.
package watch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
)

// Sample is the state of one limiter at one moment.
type Sample struct {
	Time    time.Time  `json:"time"`
	Name    names.Name `json:"name"`
	Kind    string     `json:"kind"`
	Limit   int64      `json:"limit,omitempty"`   // 0 if unknown
	Taken   int64      `json:"taken"`             // of a PER_CLIENT limiter, by the client with the most
	Granted *int64     `json:"granted,omitempty"` // since the previous sample, if known
	BusyMS  int64      `json:"busy_ms,omitempty"` // of smooth
	Clients []Client   `json:"clients,omitempty"`
	Wrong   string     `json:"wrong,omitempty"`

	id string // of its series
}

// Client has the taken permits of one client of a PER_CLIENT limiter.
type Client struct {
	ID    string `json:"id"`
	Taken int64  `json:"taken"`
}

// Watcher samples limiters by name.
type Watcher struct {
	Reader *inspect.Reader
	Names  []string
	Given  []names.Given // policies of package limit with known limits

	last   []Sample         // the latest samples
	before map[string]int64 // time of the previous sample by name, Unix milliseconds
	known  []known
	search time.Time // time of the next search for clients and policies
}

// known is a limiter with its known clients, or a policy.
type known struct {
	name  string
	found *inspect.Found
}

const maxClients = 1000

const pages = 16

// between is the pause between searches as a multiple of their duration.
const between = 20

// Look takes a sample of each limiter and policy. It searches for new clients and policies from time to
// time.
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
		w.search = now.Add(max(2*time.Second, between*time.Since(began)))
	} else {
		for _, k := range w.known {
			if err := w.Reader.Refresh(ctx, k.name, k.found, pages); err != nil {
				return nil, err
			}
		}
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

// Without returns the samples to show after a failure: the limiters of before, without figures. The next
// Look searches again.
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
		found, err := w.Reader.Of(ctx, name, inspect.Search{Most: maxClients, Pages: pages, Given: w.Given})
		if err != nil {
			return err
		}
		all = append(all, known{name: name, found: found})
	}
	w.known = all
	return nil
}

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
		s.Kind += " " + names.Rate(l.Config)
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
				n, err := w.Reader.Between(ctx, p, since, now.UnixMilli(), pages)
				if err != nil {
					return nil, err
				}
				granted += n
			}
		}
		slices.SortFunc(s.Clients, func(a, b Client) int {
			return cmp.Or(cmp.Compare(b.Taken, a.Taken), cmp.Compare(a.ID, b.ID))
		})
		if looked {
			s.Granted = &granted
		}
		all = append(all, s)
	}
	for _, p := range k.policies() {
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

// policies returns the policies of a name. A given policy without a key counts only if the name has no
// Redisson limiter.
func (k known) policies() []*inspect.Policy {
	if len(k.found.Redisson) == 0 {
		return k.found.Policies
	}
	return slices.DeleteFunc(slices.Clone(k.found.Policies), func(p *inspect.Policy) bool {
		return p.TTL == inspect.NoKey
	})
}

// Plain formats the sample as a log line.
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
