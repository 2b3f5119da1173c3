package inspect

import (
	"context"
	"strconv"
)

// Refresh rereads a limiter found by Of, with the clients and policies of that time.
func (r *Reader) Refresh(ctx context.Context, name string, found *Found, pages int) error {
	clients := map[string]map[string]bool{name: {}}
	for _, l := range found.Redisson {
		for _, p := range l.Pairs {
			if p.Client != "" { // the common pair does not count if the limiter is PER_CLIENT now
				clients[name][p.Client] = true
			}
		}
	}
	hashes, err := r.hashes(ctx, []string{name}, true)
	if err != nil {
		return err
	}
	found.Redisson = nil
	if hashes[0] != nil {
		found.Redisson = hashes
	}
	if err := r.read(ctx, found.Redisson, clients, pages); err != nil {
		return err
	}
	for i, p := range found.Policies {
		found.Policies[i] = &Policy{Name: p.Name, Stored: p.Stored}
	}
	return r.policies(ctx, found.Policies)
}

// Since counts the permits of grants dated after a time in Unix milliseconds.
func (r *Reader) Since(ctx context.Context, p *Pair, moment int64, pages int) (permits int64, err error) {
	before, err := r.Redis.Do(ctx, r.Redis.B().Zcount().Key(p.PermitsKey).Min("-inf").Max(strconv.FormatInt(moment,
		10)).Build()).AsInt64()
	if err != nil {
		return 0, r.Redis.Explain(err)
	}
	_, err = r.grants(ctx, p.PermitsKey, before, p.Grants-1, pages, func(g Grant) { permits += max(0, g.Permits) })
	return permits, err
}
