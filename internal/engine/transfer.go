package engine

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// transfer is a prefetch that is being fetched or refunded. Flush and a change of its limiter wait for it.
type transfer struct {
	keys []string      // that the limiter depends on
	done chan struct{} // closed once the prefetch is stored or refunded, or there was none
	err  error         // set before done is closed
}

// transfers is a set of transfers.
type transfers struct{ sync.Map }

func (s *transfers) begin(keys []string) *transfer {
	t := &transfer{keys: keys, done: make(chan struct{})}
	s.Store(t, nil)
	return t
}

func (s *transfers) end(t *transfer, err error) {
	t.err = err
	s.Delete(t)
	close(t.done)
}

// of returns the transfers of limiters that depend on one of these keys.
func (s *transfers) of(keys []string) (all []*transfer) {
	for _, t := range s.all() {
		if slices.ContainsFunc(t.keys, func(key string) bool { return slices.Contains(keys, key) }) {
			all = append(all, t)
		}
	}
	return all
}

func (s *transfers) all() (all []*transfer) {
	for t := range s.Range {
		all = append(all, t.(*transfer)) //nolint:errcheck,forcetypeassert // nothing else is there
	}
	return all
}

// longTransfer is how long others wait for a prefetch in transit: about as long as a call whose slot
// moves. A refund goes on after that. If only the link is slow, a call that is sent then is
// behind it on the connection.
const longTransfer = 250 * time.Millisecond

// await waits for transfers until ctx is done, but at most longTransfer. They go on.
func await(ctx context.Context, all []*transfer) {
	ctx, cancel := context.WithTimeout(ctx, longTransfer)
	defer cancel()
	for _, t := range all {
		select {
		case <-t.done:
		case <-ctx.Done():
			return
		}
	}
}

// revoke refunds the prefetches of entries.
func revoke(entries []*entry) (all []*transfer) {
	for _, e := range entries {
		if e.mu.Lock(); e.prefetches != nil {
			all = append(all, e.prefetches.revoke()...)
		}
		e.mu.Unlock()
	}
	return all
}

// Flush refunds all prefetches, including those of calls in flight, and waits for refunds and for returns of what
// requests held that have begun before. It returns the first error.
func (g *Engine) Flush(ctx context.Context) error {
	_, err := Detach(ctx, func(ctx context.Context) (struct{}, error) {
		all := append(revoke(g.registry.all()), g.transfers.all()...)
		failed := g.Keeper.Flush(ctx)
		for _, t := range all {
			<-t.done
			failed = cmp.Or(failed, t.err)
		}
		return struct{}{}, failed
	})
	return err
}
