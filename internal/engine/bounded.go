package engine

import "context"

// Bounded is a context that ends with another one, or at a moment that many have in common. A Done of its own takes a timer for
// each; who waits for both ends needs none.
type Bounded interface {
	context.Context
	Ends() (gone, late <-chan struct{})
}

// ends is what ends a context.
func ends(ctx context.Context) (gone, late <-chan struct{}) {
	if b, ok := ctx.(Bounded); ok {
		return b.Ends()
	}
	return ctx.Done(), nil
}

// leaves waits for answers, and says whether a context ended first.
func leaves(answers, gone, late <-chan struct{}) bool {
	select {
	case <-answers:
		return false
	case <-gone:
	case <-late:
	}
	return true
}
