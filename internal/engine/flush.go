package engine

import (
	"context"
)

// returnsFor is the number of leases that Flush releases at once.
const returnsFor = 16

// Flush releases all leases, including those of calls in flight, and waits for releases that have
// begun before. It returns the first error.
func (g *Engine) Flush(ctx context.Context) error {
	_, err := Detach(ctx, func(ctx context.Context) (struct{}, error) {
		var releases, awaited []release
		for _, id := range g.registry.ids() {
			e := g.registry.find(id)
			if e == nil {
				continue
			}
			releases = e.leases.revoke(releases)
			if a := e.leases.await(); a != nil {
				awaited = append(awaited, a)
			}
			g.registry.unlock(e)
		}
		releases = append(releases, awaited...) // at the end, since they may wait for calls
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
		for _, release := range releases {
			slots <- struct{}{}
			go func() {
				defer func() { <-slots }()
				failedWith(release(Unattended(ctx)))
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
