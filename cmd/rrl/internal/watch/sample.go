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
	Taken   *int64     `json:"taken,omitempty"`   // of a PER_CLIENT limiter, by the client with the most; nil if unknown
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

	histories []*history
	search    time.Time // the time of the next search for clients and policies
}

// history has the samples of a name.
type history struct {
	name   string
	found  *inspect.Found // nil until a search
	last   []Sample       // the latest ones
	before int64          // the time of the previous sample, Unix milliseconds; 0 for none
}

const maxClients = 1000

const pages = 16

// between is the pause between searches as a multiple of their duration.
const between = 20

// Look takes a sample of each limiter and policy. It searches for new clients and policies from time to
// time. Of a name that it cannot read, it returns the samples before without their figures. It also returns the
// number of names that it has read, and the first error.
func (w *Watcher) Look(ctx context.Context) (all []Sample, read int, err error) {
	if w.histories == nil {
		for _, name := range w.Names {
			w.histories = append(w.histories, &history{name: name})
		}
	}
	now, searched := w.Reader.Now(), time.Duration(0)
	again := !now.Before(w.search)
	for _, k := range w.histories {
		if again {
			k.found = nil
		}
		began := time.Now()
		samples, failed := w.look(ctx, now, k)
		if failed != nil {
			err = cmp.Or(err, failed)
			samples = k.without(now, failed)
		} else {
			read++
			searched += time.Since(began)
		}
		k.last = samples
		all = append(all, samples...)
	}
	if again {
		w.search = now.Add(max(2*time.Second, between*searched))
	}
	return all, read, err
}

func (w *Watcher) look(ctx context.Context, now time.Time, k *history) (_ []Sample, err error) {
	if k.found != nil {
		err = w.Reader.Refresh(ctx, k.name, k.found, pages)
	} else {
		k.found, err = w.Reader.Of(ctx, k.name, inspect.Search{Most: maxClients, Pages: pages, Given: w.Given})
	}
	if err != nil {
		return nil, err
	}
	return w.samples(ctx, now, k)
}

// without returns the samples to show after a failure: those before, without figures. The next Look searches
// again.
func (k *history) without(now time.Time, err error) []Sample {
	k.found = nil
	samples := slices.Clone(k.last)
	if len(samples) == 0 {
		samples = []Sample{{Name: names.Name(k.name), Kind: "unknown", id: k.name}}
	}
	for i := range samples {
		s := &samples[i]
		s.Time, s.Taken, s.Granted, s.BusyMS, s.Clients, s.Wrong = now, nil, nil, 0, nil, err.Error()
	}
	return samples
}

func (w *Watcher) samples(ctx context.Context, now time.Time, k *history) ([]Sample, error) {
	since, looked := k.before, k.before != 0
	k.before = now.UnixMilli()
	var all []Sample
	for _, l := range k.found.Redisson {
		s := Sample{Time: now, Name: names.Name(l.Name), Kind: l.Config.Type.String(), Limit: l.Config.Permits, id: l.Name}
		if !l.Valid() {
			s.Kind, s.Limit, s.Wrong = "corrupt", 0, "the configuration is invalid, see rrl show"
			all = append(all, s)
			continue
		}
		s.Kind += " " + names.Rate(l.Config)
		var taken, granted int64
		for _, p := range l.Pairs {
			taken = max(taken, p.Taken)
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
		s.Taken = &taken
		if looked {
			s.Granted = &granted
		}
		all = append(all, s)
	}
	for _, p := range k.policies() {
		s := Sample{
			Time: now, Name: names.Name(p.Name), Kind: p.Stored.String(), Taken: &p.Taken, BusyMS: p.Busy,
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
			Time: now, Name: names.Name(k.name), Kind: "no limiter", Taken: new(int64),
			Wrong: "Redis has no state of this name", id: k.name,
		})
	}
	return all, nil
}

// policies returns the policies of a name. A given policy without a key counts only if the name has no
// Redisson limiter.
func (k *history) policies() []*inspect.Policy {
	if len(k.found.Redisson) == 0 {
		return k.found.Policies
	}
	return slices.DeleteFunc(slices.Clone(k.found.Policies), func(p *inspect.Policy) bool {
		return p.TTL == inspect.NoKey
	})
}

// Plain formats the sample as a log line.
func (s Sample) Plain() string {
	text := fmt.Sprintf("%s %s %q", s.Time.UTC().Format(time.RFC3339), names.Quote(string(s.Name)), s.Kind)
	if s.Taken != nil {
		text += fmt.Sprintf(" taken=%d", *s.Taken)
	}
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
