package yamlfile

import (
	"context"

	"github.com/fsnotify/fsnotify"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// Follow follows files until ctx ends. Without notifications of the system it only polls.
func Follow(ctx context.Context, w *rulefile.Watcher) {
	n, err := fsnotify.NewWatcher()
	if err != nil {
		rulefile.Run[fsnotify.Event](ctx, w, nil, nil, nil)
		return
	}
	defer func() { _ = n.Close() }() // nothing is left to do about it
	rulefile.Run(ctx, w, n, n.Events, n.Errors)
}
