package engine

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// releasesAtOnce is the number of leases that Flush releases at the same time.
const releasesAtOnce = 16

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
		slots := make(chan struct{}, releasesAtOnce)
		for _, run := range releases {
			slots <- struct{}{}
			free := sync.OnceFunc(func() { <-slots })
			late := time.AfterFunc(longTransfer, free) // the slot of its keys moves
			go func() {
				defer free()
				defer late.Stop()
				run(Unattended(ctx))
			}()
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
