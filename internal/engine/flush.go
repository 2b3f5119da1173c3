package engine

import (
	"cmp"
	"context"
)

// Flush releases all leases, including those of calls in flight, and waits for releases that have
// begun before. It returns the first error.
func (g *Engine) Flush(ctx context.Context) error {
	_, err := Detach(ctx, func(ctx context.Context) (struct{}, error) {
		var releases []release
		for _, id := range g.registry.ids() {
			if e := g.registry.lockExisting(id); e != nil {
				releases = e.leases.revoke(releases)
				g.registry.unlockEntry(e)
			}
		}
		var transfers []*transfer
		for t := range g.transfers.Range {
			transfers = append(transfers, t.(*transfer)) //nolint:errcheck,forcetypeassert // nothing else is there
		}
		for _, run := range releases {
			run.runLater()
		}
		var failed error
		for _, t := range transfers {
			<-t.done
			failed = cmp.Or(failed, t.err)
		}
		return struct{}{}, failed
	})
	return err
}
