package inspect

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/connect"
)

const (
	// scanned is the COUNT of SCAN. One call takes about a hundredth of a millisecond of the server's
	// time, so that other callers do not notice it.
	scanned = 15

	pairPattern = "*{*" // every key of a limiter's state has a brace
)

func (w *search) hashesOf(ctx context.Context, node connect.Node) error {
	return w.walk(ctx, node, func(cursor uint64) rueidis.Completed {
		return node.B().Scan().Cursor(cursor).Count(scanned).Type("hash").Build()
	}, w.addHashes)
}

// stateOf scans the keys of a node that match a pattern for state.
func (w *search) stateOf(ctx context.Context, node connect.Node, pattern string) error {
	return w.walk(ctx, node, func(cursor uint64) rueidis.Completed {
		return node.B().Scan().Cursor(cursor).Match(pattern).Count(scanned).Build()
	}, func(_ context.Context, keys []string) error {
		w.addKeys(keys)
		return nil
	})
}

func (w *search) walk(ctx context.Context, node connect.Node, command func(cursor uint64) rueidis.Completed,
	add func(context.Context, []string) error) error {
	for cursor, begun := uint64(0), false; !begun || cursor != 0; begun = true {
		entry, err := node.Do(ctx, command(cursor)).AsScanEntry()
		if err != nil {
			return node.Explain(err)
		}
		if err := add(ctx, entry.Elements); err != nil {
			return err
		}
		cursor = entry.Cursor
		w.walked += scanned
		if w.Progress != nil {
			w.Progress(node.Where, w.walked)
		}
	}
	return nil
}
