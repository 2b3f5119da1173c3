package engine

import (
	"context"
)

// returnsFor is how many leases Flush gives back at once.
const returnsFor = 16

// Flush releases all leases, and those that calls in flight bring. It returns one of the errors. It waits for releases that have
// begun before, too.
func (g *Engine) Flush(ctx context.Context) error {
	_, err := Detached(ctx, func(ctx context.Context) (struct{}, error) {
		var backs, awaited []release // of leases that stay as they are where ctx has ended before
		for _, id := range g.registry.ids() {
			e := g.registry.find(id)
			if e == nil {
				continue
			}
			backs = e.leases.revoke(backs)
			if a := e.leases.await(); a != nil {
				awaited = append(awaited, a)
			}
			g.registry.unlock(e)
		}
		backs = append(backs, awaited...) // which may keep those behind them waiting
		var begun []*transfer
		for going := range g.returns.Range {
			begun = append(begun, going.(*transfer)) //nolint:errcheck,forcetypeassert // nothing else is there
		}
		slots, failed := make(chan struct{}, returnsFor), make(chan error, 1)
		failedWith := func(err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		}
		for _, back := range backs {
			slots <- struct{}{}
			go func() {
				defer func() { <-slots }()
				failedWith(back(Unattended(ctx)))
			}()
		}
		for range returnsFor {
			slots <- struct{}{}
		}
		for _, going := range begun {
			<-going.done
			failedWith(going.err)
		}
		select {
		case err := <-failed:
			return struct{}{}, err
		default:
			return struct{}{}, nil
		}
	})
	return err
}
